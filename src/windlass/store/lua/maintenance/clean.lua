-- The janitor's step: remove ended jobs whose retention is over, fail jobs that expired before they started, remove
-- given-up callbacks, tombstones and flows that are old, and caps of keys that have had no jobs for a while.
-- arguments: most (jobs of each kind)
-- returns:   {now, removed (jobs, callbacks, tombstones and flows), expired, next instant (0: none)}
-- refusals:  none
-- flags: allow-oom
local STATE = require('constants').STATE
local batch = require 'batch'
local clock = require 'clock'
local commit = require 'commit'
local due = require 'due'
local flow_retention = require 'flows.flow_retention'
local attempts = require 'jobs.attempts'
local counters = require 'jobs.counters'
local ending = require 'jobs.ending'
local index = require 'jobs.index'
local record = require 'jobs.record'
local tombstones = require 'jobs.tombstones'
local keys = require 'keys'
local caps = require 'limits.caps'
local pending_callbacks = require 'pending_callbacks'

local function remove_kept_jobs(most)
  local ids = due.members(keys.retention(), most)
  for _, id in ipairs(ids) do
    local job = record.load(id)
    if job then
      index.leave(job)
      ending.remove(job)
    else
      batch.z_remove(keys.retention(), id)
    end
  end
  return #ids
end

local function fail_expired_jobs(most)
  local ids = due.members(keys.expiry(), most)
  for _, id in ipairs(ids) do
    local job = record.load(id)
    if job then
      attempts.log(job, 'expired', '')
      counters.add(job.queue, 'failed', 1)
      ending.end_job(job, STATE.failed)
    else
      batch.z_remove(keys.expiry(), id)
    end
  end
  return #ids
end

local function forget_callbacks(most)
  local callbacks = due.members(keys.given_up(), most)
  for _, callback in ipairs(callbacks) do pending_callbacks.forget_given_up(callback) end
  return #callbacks
end

return function(_, most)
  most = tonumber(most)
  local removed = remove_kept_jobs(most)
  local expired = fail_expired_jobs(most)
  local forgotten = forget_callbacks(most) + tombstones.remove_old(most) + flow_retention.remove_old(most)
  caps.remove_idle(most)
  commit.run()
  local following = due.earliest(keys.retention(), keys.expiry(), keys.given_up(), keys.idle_caps(),
    keys.tombstones(), keys.flow_retention())
  return {clock.now_ms, removed + forgotten, expired, due.answer(following)}
end
