-- Return of an ended job to queued, shared by retry, requeue and complete_with_children.
local STATE = require('constants').STATE
local batch = require 'batch'
local clock = require 'clock'
local dependencies = require 'dependencies.dependencies'
local durable_state = require 'durable.state'
local flow_record = require 'flows.flow_record'
local index = require 'jobs.index'
local job_note = require 'jobs.job_note'
local record = require 'jobs.record'
local unique_keys = require 'jobs.unique_keys'
local keys = require 'keys'
local caps = require 'limits.caps'
local script = require 'script'

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
  if dependencies.is_unsettled(job.id, 'el', 'ek', 'ea') then return 'unsettled' end
  if has_lost_key(job) then return 'unique_conflict' end
  if revision ~= job.revision and redis.call('EXISTS', keys.limits_version()) == 1 then return 'limits_changed' end
  return nil
end

-- Remove what its end has left: its place in the history, and its result.
local function forget_end(job)
  if record.has(job, 'in_history') then
    record.unmark(job, 'in_history')
    batch.increment(keys.queue(job.queue), 'history_bytes_now', -record.total_bytes(job))
  end
  if record.has(job, 'has_outcome') then
    batch.delete(keys.result(job.id))
    record.unmark(job, 'has_outcome')
  end
end

local function reopen(job, state)
  index.leave(job)
  forget_end(job)
  record.unmark(job, 'ended_by_member')
  flow_record.reopen(job)
  durable_state.begin_round(job)
  batch.increment(keys.queue(job.queue), 'bytes', record.total_bytes(job))
  job.state, job.attempt, job.progress, job.ended_at = state, 0, 0, 0
  job.token, job.worker = 0, record.NO_ID
  job_note.drop(job)
  -- An expiry in the past would end the job again before a worker could take it.
  local expires_at = record.policy_of(job).expires_at
  if expires_at > 0 and expires_at <= clock.now_ms then requeue.forget_expiry(job) end
  index.enter(job)
  record.save(job)
  unique_keys.hold(job)
  if record.has(job, 'has_dependents') then dependencies.notify_dependents(dependencies.NOT_ENDED, job.id) end
end

-- `revision`: at which the job was matched against the limits; 0: there never were any. A job does not wait for members
-- that would end it again.
function requeue.requeue(job, revision, limits)
  local refused = record.has(job, 'joins') and 'wrong_state' or refusal_of(job, revision)
  if refused then return refused end
  dependencies.drop_culprits(job)
  adopt_limits(job, limits)
  job.ready_at = clock.now_ms
  reopen(job, STATE.queued)
  return 'queued'
end

-- Let a job wait again that ended because of a member. A job whose unique key another job holds stays as it is.
function requeue.wait_again(job)
  if not has_lost_key(job) then reopen(job, STATE.waiting) end
end

local waits_soon -- jobs that this call lets wait again as soon as their members are notified
script.on_start(function() waits_soon = script.clean(waits_soon) end)

-- Return the answer to a retry of a job that a member has ended or would end; nil: there is no such member. A member
-- without a record can never succeed: the job does not wait for it.
local function answer_for_member(job)
  local culprits = dependencies.find_culprits(job)
  if #culprits == 0 then return nil end
  for _, member in ipairs(culprits) do
    if not waits_soon[member] and not dependencies.is_unsettled(member, 'd0') then return 'member_failed' end
  end
  -- This call has retried them all. Their notifications let the job wait again.
  if not record.has(job, 'ended_by_member') then
    record.mark(job, 'ended_by_member')
    index.count_consequence(job, 1)
    record.save(job)
    flow_record.note_end(job)
  end
  waits_soon[job.id] = true
  return 'waiting'
end

-- Queue a job again, or let it wait again for the jobs that it needs.
function requeue.retry(job, revision, limits)
  if not record.has(job, 'has_members') then return requeue.requeue(job, revision, limits) end
  local answer = answer_for_member(job) or refusal_of(job, revision)
  if answer then return answer end
  local must_wait = record.has(job, 'joins') or dependencies.count_blockers(job.id) > 0
  if not must_wait then return requeue.requeue(job, revision, limits) end
  if record.has(job, 'joins') and dependencies.imposed_end(job) then return 'wrong_state' end
  dependencies.drop_culprits(job)
  adopt_limits(job, limits)
  job.ready_at = clock.now_ms
  reopen(job, STATE.waiting)
  dependencies.check_later(job.id)
  return 'waiting'
end

return requeue
