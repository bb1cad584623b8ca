-- Record failed deliveries: each callback becomes due again later, or is given up and kept for people to see.
-- arguments: ARGV[1] clock offset, [2] how long a given-up callback is kept in ms, [3] most that are kept; then per
--            callback: id, token, delay_ms, outcome ('again', 'given_up', or 'unspent': the attempt was not made and
--            does not count), error
-- returns:   per callback 'owed', 'given_up' or a refusal
-- refusals:  unknown_callback, stale_lease
-- flags: allow-oom
local clock = require 'clock'
local keys = require 'keys'
local pending_callbacks = require 'pending_callbacks'
local wakeups = require 'workers.wakeups'

return function(arguments)
  local kept_ms, most_kept = tonumber(arguments[2]), tonumber(arguments[3])
  local has_retries = false

  local function give_up(callback)
    pending_callbacks.unlist(callback, pending_callbacks.destination_of(callback))
    pending_callbacks.list_given_up(callback, clock.now_ms + kept_ms)
    if redis.call('ZCARD', keys.given_up()) > most_kept then
      pending_callbacks.forget_given_up(redis.call('ZRANGE', keys.given_up(), 0, 0)[1])
    end
    return 'given_up'
  end

  local function retry_callback(callback, token, delay_ms, becomes, problem)
    local refused = pending_callbacks.refusal_of(callback, token)
    if refused then return refused end
    redis.call('HDEL', keys.callback(callback), 'token')
    if becomes == 'unspent' then
      redis.call('HINCRBY', keys.callback(callback), 'tries', -1)
    else
      redis.call('HSET', keys.callback(callback), 'error', problem)
    end
    if becomes == 'given_up' then return give_up(callback) end
    pending_callbacks.list(callback, pending_callbacks.destination_of(callback), clock.now_ms + tonumber(delay_ms))
    has_retries = true
    return 'owed'
  end

  local answers = {}
  for i = 4, #arguments, 5 do table.insert(answers, retry_callback(unpack(arguments, i, i + 4))) end
  -- A waiting process must learn of the new due time.
  if has_retries then wakeups.wake(pending_callbacks.PLACE, nil) end
  return answers
end
