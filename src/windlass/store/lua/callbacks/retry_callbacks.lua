-- Record failed deliveries: each callback becomes due again later, or is given up and kept for people to see.
-- arguments: ARGV[1] clock offset, [2] how long a given-up callback is kept in ms, [3] most that are kept; then per
--            callback: id, token, delay_ms, outcome ('again', 'given_up', or 'unspent': the attempt was not made and
--            does not count), error
-- returns:   per callback 'owed', 'given_up' or a refusal
-- refusals:  unknown_callback, stale_lease
-- flags: allow-oom
-- uses: keys, clock, wakeups, pending_callbacks
local kept_ms, most_kept = tonumber(ARGV[2]), tonumber(ARGV[3])
local has_retries = false

local function give_up(debt)
  unlist_owed(debt, to_of(debt))
  list_given_up(debt, now_ms + kept_ms)
  if redis.call('ZCARD', P .. 'given_up') > most_kept then
    forget_given_up(redis.call('ZRANGE', P .. 'given_up', 0, 0)[1])
  end
  return 'given_up'
end

local function retry_callback(debt, token, delay_ms, becomes, problem)
  local refused = refused_debt(debt, token)
  if refused then return refused end
  redis.call('HDEL', debt_key(debt), 'token')
  if becomes == 'unspent' then
    redis.call('HINCRBY', debt_key(debt), 'tries', -1)
  else
    redis.call('HSET', debt_key(debt), 'error', problem)
  end
  if becomes == 'given_up' then return give_up(debt) end
  list_owed(debt, to_of(debt), now_ms + tonumber(delay_ms))
  has_retries = true
  return 'owed'
end

local answers = {}
for i = 4, #ARGV, 5 do table.insert(answers, retry_callback(unpack(ARGV, i, i + 4))) end
-- A waiting process must learn of the new due time.
if has_retries then ring(OWED, nil) end
return answers
