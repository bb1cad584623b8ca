-- Return of an ended job to queued, shared by retry, requeue and complete_with_children.
local STATE = require('constants').STATE
local batch = require 'batch'
local clock = require 'clock'
local dependencies = require 'dependencies.dependencies'
local flow_record = require 'flows.flow_record'
local index = require 'jobs.index'
local job_note = require 'jobs.job_note'
local record = require 'jobs.record'
local unique_keys = require 'jobs.unique_keys'
local keys = require 'keys'
local caps = require 'limits.caps'

local requeue = {}

function requeue.drop_expiry(job)
  local policy = record.policy_of(job)
  if policy.expires_at == 0 then return end
  local never = 0
  job.policy = struct.pack(record.POLICY, policy.max_attempts, policy.lease_ms, policy.timeout_ms, policy.result_ttl_ms,
    never) .. string.sub(job.policy, record.POLICY_BYTES + 1)
  job.policy_read = nil
end

function requeue.forget_expiry(job)
  requeue.drop_expiry(job)
  record.rewrite(job, record.payload_of(job))
end

-- Limits may have changed since the job ended: it counts against those it matches now.
local function adopt_limits(job, limits)
  if record.links_of(job).limits == limits then return end
  local payload = record.payload_of(job)
  caps.change_limits(job, limits)
  record.rewrite(job, payload)
end

-- Return whether another job holds its unique key.
local function has_lost_key(job)
  local keeps_key = record.has(job, 'unique_while_kept') and not record.has(job, 'in_history')
  if job.unique == '' or keeps_key then return false end
  local holder = unique_keys.oldest_holder(job)
  return holder and holder.id ~= job.id
end

local function refusal_of(job, revision)
  if record.has(job, 'joins') then return 'wrong_state' end
  if dependencies.is_unsettled(job.id, 'el', 'ek', 'ea') then return 'unsettled' end
  if has_lost_key(job) then return 'unique_conflict' end
  if revision ~= job.revision and redis.call('EXISTS', keys.limits_version()) == 1 then return 'limits_changed' end
  return nil
end

-- Remove what its end has left: its place in the history, and its result.
local function forget_end(job)
  if record.has(job, 'in_history') then
    record.unmark(job, 'in_history')
    batch.increment(keys.queue(job.queue), 'history_bytes_now', -job.bytes)
  end
  if record.has(job, 'has_outcome') then
    batch.delete(keys.result(job.id))
    record.unmark(job, 'has_outcome')
  end
end

-- `revision`: at which the job was matched against the limits; 0: there never were any.
function requeue.requeue(job, revision, limits)
  local refused = refusal_of(job, revision)
  if refused then return refused end
  adopt_limits(job, limits)
  index.leave(job)
  forget_end(job)
  flow_record.reopen(job)
  batch.increment(keys.queue(job.queue), 'bytes', job.bytes)
  job.state, job.attempt, job.progress, job.ended_at = STATE.queued, 0, 0, 0
  job.token, job.worker, job.ready_at = 0, record.NO_ID, clock.now_ms
  job_note.drop(job)
  -- An expiry in the past would end the job again before a worker could take it.
  local expires_at = record.policy_of(job).expires_at
  if expires_at > 0 and expires_at <= clock.now_ms then requeue.forget_expiry(job) end
  index.enter(job)
  record.save(job)
  unique_keys.hold(job)
  if record.has(job, 'has_dependents') then dependencies.notify_dependents(dependencies.NOT_ENDED, job.id) end
  return 'queued'
end

return requeue
