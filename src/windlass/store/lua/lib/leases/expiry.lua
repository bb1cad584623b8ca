-- Effects of time: scheduled jobs that are due, and expired leases. take handles both itself and waits for no
-- background loop.
local STATE = require('constants').STATE
local batch = require 'batch'
local clock = require 'clock'
local waits = require 'durable.waits'
local attempts = require 'jobs.attempts'
local counters = require 'jobs.counters'
local ending = require 'jobs.ending'
local index = require 'jobs.index'
local record = require 'jobs.record'
local keys = require 'keys'
local reports = require 'leases.reports'
local blocked_lanes = require 'limits.blocked_lanes'
local limits = require 'limits.limits'

local expiry = {}

-- Set a queue's timer to the next instant in its indexes, or remove it.
function expiry.reset_timer(kind, queue, ...)
  local following = math.huge
  for _, kind_of_index in ipairs({...}) do
    local first = redis.call('ZRANGE', keys.of_queue(kind_of_index, queue), 0, 0, 'WITHSCORES')
    following = math.min(following, tonumber(first[2] or math.huge))
  end
  if following < math.huge then
    redis.call('ZADD', keys.timer(kind), following, queue)
    return following
  end
  redis.call('ZREM', keys.timer(kind), queue)
  return nil
end

function expiry.due_ids(kind_of_index, queue, most)
  return redis.call('ZRANGEBYSCORE', keys.of_queue(kind_of_index, queue), '-inf', clock.now_ms, 'LIMIT', 0, most)
end

function expiry.promote(queue, most)
  local ids = expiry.due_ids('scheduled', queue, most)
  local woken = waits.wake_due(expiry.due_ids('suspended', queue, most), queue)
  for _, id in ipairs(ids) do
    local job = record.load(id)
    if job then
      index.leave(job)
      job.state = STATE.queued
      index.enter(job)
      record.save(job)
    else
      batch.z_remove(keys.scheduled(queue), id)
    end
  end
  batch.flush()
  blocked_lanes.open_rates(queue)
  return #ids + woken, expiry.reset_timer('due', queue, 'scheduled', 'suspended', 'rates')
end

function expiry.is_timed_out(job)
  local timeout_ms = record.policy_of(job).timeout_ms
  return job.state == STATE.running and timeout_ms > 0 and job.started_at + timeout_ms <= clock.now_ms
end

-- End an expired lease. (The recoverer decides execution timeouts, in Python.) The reason and error of the attempt are
-- for leases that end earlier, with their worker.
function expiry.lose_lease(job, reason, problem)
  reason, problem = reason or 'lease_expired', problem or ''
  local is_unspent = job.state == STATE.dispatched and not record.has(job, 'dispatch_counts')
  if record.has(job, 'cancel_requested') then
    attempts.log(job, reason, problem)
    counters.add(job.queue, 'cancelled', 1)
    ending.end_job(job, STATE.cancelled)
  elseif is_unspent then
    job.attempt = job.attempt - 1
    reports.put_back(job)
  elseif record.has(job, 'retake') and job.state == STATE.running then
    record.mark(job, 'retakeable')
    if job.links ~= '' then limits.free(job) end
    job.ready_at = job.deadline
    index.enter_lane(job)
    index.enter_running(job)
    record.save(job)
  elseif record.policy_of(job).max_attempts > 0 and job.attempt >= record.policy_of(job).max_attempts then
    attempts.log(job, reason, problem)
    counters.add(job.queue, 'failed', 1)
    ending.end_job(job, STATE.failed)
  else
    attempts.log(job, reason, problem)
    counters.add(job.queue, 'recovered', 1)
    reports.put_back(job)
  end
end

function expiry.recover_overdue(queue, most)
  local lost, timed_out = 0, 0
  for _, id in ipairs(expiry.due_ids('running', queue, most)) do
    local job = record.load(id)
    if not job then
      batch.z_remove(keys.running(queue), id)
    elseif expiry.is_timed_out(job) then
      timed_out = timed_out + 1
    else
      expiry.lose_lease(job)
      lost = lost + 1
    end
  end
  batch.flush()
  return lost, timed_out
end

local DUE_PER_TAKE = 200

-- Bring a queue up to date, in a bounded step. Returns the next instant at which something is due in it.
function expiry.settle_due(queue)
  local overdue = tonumber(redis.call('ZSCORE', keys.timer('lease'), queue) or math.huge)
  if overdue <= clock.now_ms then
    expiry.recover_overdue(queue, DUE_PER_TAKE)
    overdue = expiry.reset_timer('lease', queue, 'running') or math.huge
  end
  -- After the leases, because a job that comes back may be due only later.
  local due = tonumber(redis.call('ZSCORE', keys.timer('due'), queue) or math.huge)
  if due <= clock.now_ms then
    local _, following = expiry.promote(queue, DUE_PER_TAKE)
    due = following or math.huge
  end
  -- Anything that is still due needs more than one step, or the recoverer. A waiting taker must not spin on it.
  if due <= clock.now_ms then due = clock.now_ms + 10 end
  if overdue <= clock.now_ms then overdue = clock.now_ms + 1000 end
  return math.min(due, overdue)
end

return expiry
