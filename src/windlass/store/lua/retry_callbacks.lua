-- Callbacks could not be delivered: they are due again later, or given up and kept for people to see.
-- arguments: ARGV[1] clock offset, [2] how long one that is given up is kept in ms, [3] most that are kept; then per
--            callback: id, token, delay_ms, '1' to give up, what went wrong
-- returns:   per callback 'owed', 'given_up' or a refusal
-- refusals:  unknown_callback, stale_lease
-- flags: allow-oom
-- uses: keys, clock, ring, owed
local kept_ms, most_kept = tonumber(ARGV[2]), tonumber(ARGV[3])
local has_retries = false

local function give_up(debt)
  redis.call('ZREM', P .. 'owed', debt)
  redis.call('ZADD', P .. 'given_up', now_ms + kept_ms, debt)
  if redis.call('ZCARD', P .. 'given_up') > most_kept then
    forget_debt('given_up', redis.call('ZRANGE', P .. 'given_up', 0, 0)[1])
  end
  return 'given_up'
end

local function retry_callback(debt, token, delay_ms, gives_up, problem)
  local refused = refused_debt(debt, token)
  if refused then return refused end
  redis.call('HDEL', debt_key(debt), 'token')
  redis.call('HSET', debt_key(debt), 'error', problem)
  if gives_up == '1' then return give_up(debt) end
  redis.call('ZADD', P .. 'owed', now_ms + tonumber(delay_ms), debt)
  has_retries = true
  return 'owed'
end

local answers = {}
for i = 4, #ARGV, 5 do table.insert(answers, retry_callback(unpack(ARGV, i, i + 4))) end
-- Whoever waits learns of the earlier instant.
if has_retries then ring(OWED, nil) end
return answers
