-- The janitor's step: remove ended jobs whose retention is over, fail jobs that expired before they started, remove
-- given-up callbacks that are old, and caps of keys that have had no jobs for a while.
-- arguments: ARGV[1] clock offset, [2] most jobs of each kind
-- returns:   {now, removed (jobs and callbacks), expired, next instant (0: none)}
-- refusals:  none
-- flags: allow-oom
local STATE = require('constants').STATE
local batch = require 'batch'
local clock = require 'clock'
local attempts = require 'jobs.attempts'
local counters = require 'jobs.counters'
local ending = require 'jobs.ending'
local index = require 'jobs.index'
local record = require 'jobs.record'
local keys = require 'keys'
local caps = require 'limits.caps'
local pending_callbacks = require 'pending_callbacks'
local wake_takers = require 'workers.wake_takers'

return function(arguments)
  local most = tonumber(arguments[2])

  local function due_of(key) return redis.call('ZRANGEBYSCORE', keys.named(key), '-inf', clock.now_ms, 'LIMIT', 0, most) end

  local overdue = due_of('retention')
  for _, id in ipairs(overdue) do
    local job = record.load(id)
    if job then
      index.leave(job)
      ending.remove(job)
    else
      batch.z_remove(keys.retention(), id)
    end
  end
  local expired = due_of('expiry')
  for _, id in ipairs(expired) do
    local job = record.load(id)
    if job then
      attempts.log(job, 'expired', '')
      counters.add(job.queue, 'failed', 1)
      ending.end_job(job, STATE.failed)
    else
      batch.z_remove(keys.expiry(), id)
    end
  end
  local forgotten = due_of('given_up')
  for _, callback in ipairs(forgotten) do pending_callbacks.forget_given_up(callback) end
  caps.remove_idle(most)
  batch.flush()
  wake_takers.wake_all()
  ending.trim_histories()
  local following = math.huge
  for _, key in ipairs({'retention', 'expiry', 'given_up', 'idle_caps'}) do
    local first = redis.call('ZRANGE', keys.named(key), 0, 0, 'WITHSCORES')
    if first[2] then following = math.min(following, tonumber(first[2])) end
  end
  return {clock.now_ms, #overdue + #forgotten, #expired, following < math.huge and following or 0}
end
