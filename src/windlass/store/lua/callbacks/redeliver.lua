-- Make given-up callbacks pending again, at the request of a person.
-- arguments: ids (of callbacks, or of jobs: up to 100 given-up callbacks of the job)
-- returns:   per id 'owed' or a refusal
-- refusals:  unknown_callback (of a job: it has no given-up callback), wrong_state (it is still pending)
-- flags: allow-oom
local clock = require 'clock'
local keys = require 'keys'
local pending_callbacks = require 'pending_callbacks'
local script = require 'script'
local wakeups = require 'workers.wakeups'

local JOB_ID_BYTES, PER_JOB_MAX = 16, 100

local function make_pending(callback)
  if not pending_callbacks.unlist_given_up(callback) then
    return redis.call('EXISTS', keys.callback(callback)) == 1 and 'wrong_state' or 'unknown_callback'
  end
  redis.call('HSET', keys.callback(callback), 'tries', 0)
  pending_callbacks.list(callback, pending_callbacks.destination_of(callback), clock.now_ms)
  return 'owed'
end

-- A callback id begins with its job's id, so the callbacks of a job are adjacent in the index.
local function redeliver(id)
  if #id > JOB_ID_BYTES then return make_pending(id) end
  local last = '(' .. id .. string.rep('\255', 7)
  local callbacks = redis.call('ZRANGEBYLEX', keys.given_up_ids(), '[' .. id, last, 'LIMIT', 0, PER_JOB_MAX)
  for _, callback in ipairs(callbacks) do make_pending(callback) end
  return #callbacks > 0 and 'owed' or 'unknown_callback'
end

return function(arguments)
  local answers = script.map(arguments, 2, 1, redeliver)
  wakeups.wake(pending_callbacks.PLACE, nil)
  return answers
end
