-- Record failed deliveries: each callback becomes due again later, or is given up and kept for people to see.
-- arguments: kept_ms (how long a given-up callback is kept), most_kept; then per callback: id, token, delay_ms, outcome
--            ('again', 'given_up', or 'unspent': the attempt was not made and does not count), problem
-- returns:   per callback 'owed', 'given_up' or a refusal
-- refusals:  unknown_callback, stale_lease
-- flags: allow-oom
local clock = require 'clock'
local keys = require 'keys'
local pending_callbacks = require 'pending_callbacks'
local script = require 'script'
local wakeups = require 'workers.wakeups'

local function give_up(callback, kept_ms, most_kept)
  pending_callbacks.unlist(callback, pending_callbacks.destination_of(callback))
  pending_callbacks.list_given_up(callback, clock.now_ms + kept_ms)
  if redis.call('ZCARD', keys.given_up()) > most_kept then
    pending_callbacks.forget_given_up(redis.call('ZRANGE', keys.given_up(), 0, 0)[1])
  end
end

local function record_failure(callback, outcome, problem)
  redis.call('HDEL', keys.callback(callback), 'token')
  if outcome == 'unspent' then
    redis.call('HINCRBY', keys.callback(callback), 'tries', -1)
  else
    redis.call('HSET', keys.callback(callback), 'error', problem)
  end
end

return function(arguments, kept_ms, most_kept)
  kept_ms, most_kept = tonumber(kept_ms), tonumber(most_kept)
  local has_retries = false
  local answers = script.map(arguments, 4, 5, function(callback, token, delay_ms, outcome, problem)
    local refused = pending_callbacks.refusal_of(callback, token)
    if refused then return refused end
    record_failure(callback, outcome, problem)
    if outcome == 'given_up' then
      give_up(callback, kept_ms, most_kept)
      return 'given_up'
    end
    pending_callbacks.list(callback, pending_callbacks.destination_of(callback), clock.now_ms + tonumber(delay_ms))
    has_retries = true
    return 'owed'
  end)
  -- A waiting process must learn of the new due time.
  if has_retries then wakeups.wake(pending_callbacks.PLACE, nil) end
  return answers
end
