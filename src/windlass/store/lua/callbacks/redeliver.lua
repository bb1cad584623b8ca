-- Make given-up callbacks pending again, at the request of a person.
-- arguments: ARGV[1] clock offset; then ids of callbacks, or of jobs: up to 100 given-up callbacks of the job
-- returns:   per id 'owed' or a refusal
-- refusals:  unknown_callback (of a job: it has no given-up callback), wrong_state (it is still pending)
-- flags: allow-oom
-- uses: keys, clock, wakeups, pending_callbacks
local JOB_BYTES, MOST_OF_A_JOB = 16, 100

local function owe_again(debt)
  if not unlist_given_up(debt) then
    return redis.call('EXISTS', debt_key(debt)) == 1 and 'wrong_state' or 'unknown_callback'
  end
  redis.call('HSET', debt_key(debt), 'tries', 0)
  list_owed(debt, to_of(debt), now_ms)
  return 'owed'
end

-- A callback id begins with its job's id, so the callbacks of a job are adjacent in the index.
local function redeliver(id)
  if #id > JOB_BYTES then return owe_again(id) end
  local last = '(' .. id .. string.rep('\255', 7)
  local debts = redis.call('ZRANGEBYLEX', P .. 'given_up_ids', '[' .. id, last, 'LIMIT', 0, MOST_OF_A_JOB)
  for _, debt in ipairs(debts) do owe_again(debt) end
  return #debts > 0 and 'owed' or 'unknown_callback'
end

local answers = {}
for i = 2, #ARGV do table.insert(answers, redeliver(ARGV[i])) end
ring(OWED, nil)
return answers
