-- A person wants callbacks delivered after all that were given up.
-- arguments: ARGV[1] clock offset; then ids of callbacks
-- returns:   per callback 'owed' or a refusal
-- refusals:  unknown_callback, wrong_state (it is still owed)
-- flags: allow-oom
-- uses: keys, clock, ring, owed
local function owe_again(debt)
  if redis.call('ZREM', P .. 'given_up', debt) == 0 then
    return redis.call('EXISTS', debt_key(debt)) == 1 and 'wrong_state' or 'unknown_callback'
  end
  redis.call('HSET', debt_key(debt), 'tries', 0)
  redis.call('ZADD', P .. 'owed', now_ms, debt)
  return 'owed'
end

local answers = {}
for i = 2, #ARGV do table.insert(answers, owe_again(ARGV[i])) end
ring(OWED, nil)
return answers
