-- Index entries of a job, for the general path: `enter` adds the entries of its state and `leave` removes them. The
-- fast path (lib/fast_path) writes such entries itself, and the doctor restores lost ones (expected_index.lua). `enter`
-- may mark the record (its kind of lane), so call it before the record is saved.
local STATE = require('constants').STATE
local batch = require 'batch'
local clock = require 'clock'
local dependencies = require 'dependencies.dependencies'
local events = require 'events'
local record = require 'jobs.record'
local keys = require 'keys'
local caps = require 'limits.caps'
local limits = require 'limits.limits'
local configuration = require 'queues.configuration'
local lanes = require 'queues.lanes'
local script = require 'script'
local push_workers = require 'workers.push_workers'
local wakeups = require 'workers.wakeups'

local index = {}

function index.overdue_at(job)
  local timeout_ms = record.policy_of(job).timeout_ms
  local at = (job.deadline > 0 and not record.has(job, 'retakeable')) and job.deadline or math.huge
  if timeout_ms > 0 and job.state == STATE.running then at = math.min(at, job.started_at + timeout_ms) end
  return at
end

-- Return the instant at which a suspended job wakes by itself, or infinity.
function index.wakes_at(job) return job.ready_at > 0 and job.ready_at or math.huge end

-- A number is sent with 17 digits, so exactly. Only infinity needs a text.
function index.score_of(at) return at == math.huge and '+inf' or at end

-- A timer is a lower bound. It is lowered here, and corrected by the loop that finds nothing due.
local timers
script.on_start(function() timers = {due = {}, lease = {}} end)
function index.note_timer(kind, queue, at)
  local known = timers[kind][queue]
  if at < math.huge and (not known or at < known) then timers[kind][queue] = at end
end

-- Lower a timer of a queue now, and wake the loops that would sleep past the instant. Returns whether it was lowered.
function index.lower_timer(kind, queue, at)
  if redis.call('ZADD', keys.timer(kind), 'LT', 'CH', at, queue) == 0 then return false end
  wakeups.wake_loops(at)
  return true
end

batch.after_flush(function()
  -- Takers wait until the next due time that they know. An earlier one must wake a taker.
  for queue, at in pairs(timers.due) do
    if index.lower_timer('due', queue, at) then wakeups.wake(queue, nil) end
  end
  -- The timer outlives its job, so this is rare.
  for queue, at in pairs(timers.lease) do index.lower_timer('lease', queue, at) end
  timers = {due = {}, lease = {}}
end)

function index.enter_lane(job)
  local config = configuration.of(job.queue)
  if config.name_lanes == 1 then
    record.mark(job, 'name_lane')
  elseif record.has(job, 'name_lane') then
    record.unmark(job, 'name_lane')
  end
  if record.has(job, 'hidden') and not config.has_hidden then
    redis.call('HSET', keys.queue(job.queue), 'hidden', 1)
    config.has_hidden = true
  end
  local lane, member, score = lanes.of(job), lanes.member_of(job), lanes.score_of(job, config)
  if lane ~= '' then
    lanes.touch(job.queue, lane)
    batch.z_add(keys.laned(job.queue), score, member)
  end
  batch.z_add(keys.lane(job.queue, lane), score, member)
  wakeups.note_takeable(job)
end

function index.leave_lane(job)
  local lane, member = lanes.of(job), lanes.member_of(job)
  if lane ~= '' then
    lanes.touch(job.queue, lane)
    batch.z_remove(keys.laned(job.queue), member)
  end
  batch.z_remove(keys.lane(job.queue, lane), member)
end

-- Set when the recoverer checks the job. Call it again when that instant changes.
function index.watch(job)
  local at = index.overdue_at(job)
  batch.z_add(keys.running(job.queue), index.score_of(at), job.id)
  index.note_timer('lease', job.queue, at)
end

-- An overdue job that others may take holds no limit: its own limits must not prevent the take.
function index.enter_running(job)
  index.watch(job)
  if job.links ~= '' and not record.has(job, 'retakeable') then limits.hold(job) end
  if job.worker ~= record.NO_ID then batch.z_add(keys.worker_jobs(job.worker), job.started_at, job.id) end
end

local function leave_running(job)
  batch.z_remove(keys.running(job.queue), job.id)
  if job.worker ~= record.NO_ID then batch.z_remove(keys.worker_jobs(job.worker), job.id) end
  if job.links ~= '' then limits.free(job) end
  if record.has(job, 'retakeable') then
    index.leave_lane(job)
    record.unmark(job, 'retakeable')
  end
  if job.worker ~= record.NO_ID then push_workers.note_room(job.worker) end
end

-- A job must start before its expiry. A job that waits for its next attempt has started.
function index.may_expire(job)
  return record.is_pending(job) and job.attempt == 0 and record.policy_of(job).expires_at > 0
end

-- Count a failed job that has no failure of its own, while it is listed as failed.
function index.count_consequence(job, delta)
  local is_listed = job.state == STATE.failed and not record.has(job, 'in_history')
  if is_listed and record.has(job, 'ended_by_member') then
    batch.increment(keys.queue(job.queue), 'consequences', delta)
  end
end

function index.enter(job)
  local state = job.state
  if state == STATE.queued then
    index.enter_lane(job)
  elseif state == STATE.scheduled then
    batch.z_add(keys.scheduled(job.queue), job.ready_at, job.id)
    index.note_timer('due', job.queue, job.ready_at)
  elseif record.is_leased(job) then
    index.enter_running(job)
  elseif state == STATE.waiting then
    batch.z_add(keys.waiting(job.queue), job.created_at, job.id)
  elseif state == STATE.suspended then
    local at = index.wakes_at(job)
    batch.z_add(keys.suspended(job.queue), index.score_of(at), job.id)
    index.note_timer('due', job.queue, at)
  else
    local kind = record.has(job, 'in_history') and 'history' or keys.STATE_INDEX[state]
    batch.z_add(keys.of_queue(kind, job.queue), job.ended_at, job.id)
    index.count_consequence(job, 1)
  end
  if index.may_expire(job) then batch.z_add(keys.expiry(), record.policy_of(job).expires_at, job.id) end
  if job.links ~= '' then
    dependencies.update_parent(job)
    if not record.is_ended(job) then caps.enter(job) end
  end
  if job.announced ~= state then events.announce_state(job) end
end

function index.leave(job)
  local state = job.state
  if job.links ~= '' and not record.is_ended(job) then caps.leave(job) end
  if state == STATE.queued then
    index.leave_lane(job)
  elseif record.is_leased(job) then
    leave_running(job)
  else
    local kind = record.has(job, 'in_history') and 'history' or keys.STATE_INDEX[state]
    batch.z_remove(keys.of_queue(kind, job.queue), job.id)
    if record.is_ended(job) then
      batch.z_remove(keys.retention(), job.id)
      index.count_consequence(job, -1)
    end
  end
  if record.policy_of(job).expires_at > 0 and record.is_pending(job) then batch.z_remove(keys.expiry(), job.id) end
end

-- Return queued if its time has come, else scheduled.
function index.state_by_time(job)
  return job.ready_at <= clock.now_ms and STATE.queued or STATE.scheduled
end

return index
