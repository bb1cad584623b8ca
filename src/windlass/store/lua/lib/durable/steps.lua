-- Steps that the holder of a lease has run.
local STEP_STATUS = require('constants').STEP_STATUS
local DURABLE = require('constants').DURABLE
local clock = require 'clock'
local state = require 'durable.state'
local index = require 'jobs.index'
local record = require 'jobs.record'
local requeue = require 'jobs.requeue'
local namespace_format = require 'namespace_format'

local steps = {}

-- Mark that a job has a hash of durable state.
function steps.mark_durable(job)
  if record.has(job, 'durable') then return end
  record.mark(job, 'durable')
  record.save(job)
end

-- Mark that a leased job has stored steps: from now on only takers that know steps may have it. It has started, so it
-- cannot expire.
function steps.open(job)
  if record.has(job, 'needs_steps') then return end
  namespace_format.require_steps()
  local is_in_lane = record.has(job, 'retakeable')
  if is_in_lane then index.leave_lane(job) end
  record.mark(job, 'durable')
  record.mark(job, 'needs_steps')
  if is_in_lane then index.enter_lane(job) end
  if record.policy_of(job).expires_at > 0 then requeue.forget_expiry(job) else record.save(job) end
end

-- Return whether a step with a value of this size would exceed the bounds of the job.
local function is_too_much(counters, known, grown)
  return (not known and counters.steps >= DURABLE.steps_max) or counters.bytes + grown > DURABLE.steps_bytes_max
end

-- Write a step of a held job, within its bounds. `known`: the stored step of this name, or nil. Returns a refusal, or
-- nil and the step as stored.
function steps.write(job, name, known, step)
  local counters = state.load_counters(job)
  if is_too_much(counters, known, #step.value + #name) then return 'steps_full' end
  steps.open(job)
  step.begun_at = step.begun_at or clock.now_ms
  step.ended_at, step.wake_at, step.detail = step.ended_at or 0, step.wake_at or 0, step.detail or ''
  if not known then return nil, state.add_step(job, name, step, counters) end
  step.number, step.bytes = known.number, known.bytes
  return nil, state.save_step(job, name, step)
end

-- Store the outcome of a step. The first outcome stays: a repeated call changes nothing. A cursor moves on while it
-- waits.
function steps.store(job, name, kind, status, tries, ran_ms, value)
  local known = state.load_step(job, name)
  if known and known.status ~= STEP_STATUS.waiting then return 'ok' end
  local begun_at = known and known.begun_at or math.max(0, clock.now_ms - ran_ms)
  local ended_at = status ~= STEP_STATUS.waiting and clock.now_ms or 0
  local detail = known and known.kind == kind and known.detail or ''
  return steps.write(job, name, known, {
    kind = kind, status = status, tries = tries, begun_at = begun_at, ended_at = ended_at, value = value,
    detail = detail,
  }) or 'ok'
end

return steps
