-- End of a run whose code waits: the job is suspended until one of its conditions is met.
local STATE = require('constants').STATE
local STEP_KIND = require('constants').STEP_KIND
local STEP_STATUS = require('constants').STEP_STATUS
local DURABLE = require('constants').DURABLE
local clock = require 'clock'
local mailbox = require 'durable.mailbox'
local state = require 'durable.state'
local steps = require 'durable.steps'
local waits = require 'durable.waits'
local counters = require 'jobs.counters'
local ending = require 'jobs.ending'
local index = require 'jobs.index'
local record = require 'jobs.record'
local keys = require 'keys'
local reports = require 'leases.reports'

local suspension = {}

-- A wait as its caller packs it: kind, length in ms (I6; all bits set: no end), tries, name, detail; the value of the
-- step while it waits follows, with its codec: the error of the last try, or the schema of a signal.
local WAIT = '>BI6I4I2c0I2c0I4c0'

local function read_waits(packed)
  local found, at = {}, 1
  while at <= #packed do
    local kind, for_ms, tries, name, detail, value, following = struct.unpack(WAIT, packed, at)
    found[#found + 1] = {kind = kind, for_ms = for_ms, tries = tries, name = name, detail = detail, value = value}
    at = following
  end
  return found
end

-- Store a wait, once: its end is not moved by a repeated suspension. Only a step that failed again has a new pause.
-- Returns a refusal, or nil and the stored step.
local function store_wait(job, wait)
  local known = state.load_step(job, wait.name)
  local is_retried = wait.kind == STEP_KIND.step and known and known.status == STEP_STATUS.waiting
  if known and not is_retried then return nil, known end
  local refused = steps.write(job, wait.name, known, {
    kind = wait.kind, status = STEP_STATUS.waiting, tries = wait.tries, detail = wait.detail, value = wait.value,
    begun_at = known and known.begun_at,
    wake_at = wait.for_ms < record.FOREVER_MS and clock.now_ms + wait.for_ms or 0,
  })
  if refused then return refused end
  return nil, state.load_step(job, wait.name)
end

-- Store the waits of a job. Returns a refusal, or nil, whether one is met, and the first instant at which one ends (0:
-- none).
local function store_waits(job, wanted)
  local is_met, wake_at = false, math.huge
  for _, wait in ipairs(wanted) do
    local refused, step = store_wait(job, wait)
    local received
    if not refused and step.kind == STEP_KIND.signal and step.status == STEP_STATUS.waiting then
      refused, received = mailbox.receive(job, wait.name, wait.detail, step)
    end
    if refused then return refused end
    if received or waits.is_met(job, step) then
      is_met = true
      if not received then waits.settle(job, wait.name, step) end
    end
    if step.wake_at > 0 then wake_at = math.min(wake_at, step.wake_at) end
  end
  return nil, is_met, wake_at < math.huge and wake_at or 0
end

local function pack_names(wanted)
  local parts = {}
  for i, wait in ipairs(wanted) do parts[i] = struct.pack('>I2c0', #wait.name, wait.name) end
  return table.concat(parts)
end

-- The deadline of a suspended job is no lease: AWAITS_EVENT marks that it does not only wait for a time, so that
-- readers of its record can tell the two apart.
local AWAITS_EVENT = 1
local function awaits_event(wanted)
  for _, wait in ipairs(wanted) do
    if wait.kind == STEP_KIND.signal or wait.kind == STEP_KIND.children then return true end
  end
  return false
end

local function become_suspended(job, token, wanted, wake_at)
  redis.call('HSET', keys.durable(job.id), 'w', pack_names(wanted), 't', clock.now_ms, 'l', token)
  index.leave(job)
  job.token, job.deadline, job.worker = 0, awaits_event(wanted) and AWAITS_EVENT or 0, record.NO_ID
  job.state, job.ready_at = STATE.suspended, wake_at
  index.enter(job)
  record.save(job)
end

-- Return whether this token has suspended the job: the call is repeated because its reply was lost.
local function is_repeated(job, token)
  return job.state == STATE.suspended and redis.call('HGET', keys.durable(job.id), 'l') == tostring(token)
end

function suspension.suspend(id, token, packed)
  local job, refused = reports.find_held(id, token)
  if not job then
    local stored = record.load(id)
    return stored and is_repeated(stored, token) and 'suspended' or refused
  end
  if record.has(job, 'cancel_requested') then
    counters.add(job.queue, 'cancelled', 1)
    ending.end_job(job, STATE.cancelled)
    return 'cancelled'
  end
  local before = record.has(job, 'durable') and tonumber(redis.call('HGET', keys.durable(id), 'k') or 0) or 0
  if before >= DURABLE.suspensions_max then return 'too_many_suspensions' end
  local wanted, is_met, wake_at = read_waits(packed), nil, nil
  refused, is_met, wake_at = store_waits(job, wanted)
  if refused then return refused end
  redis.call('HINCRBY', keys.durable(id), 'k', 1)
  counters.add(job.queue, 'run_ms', math.max(0, clock.now_ms - job.started_at))
  job.attempt = math.max(0, job.attempt - 1)
  if is_met then
    redis.call('HSET', keys.durable(id), 'z', 1, 'l', token)
    reports.put_back(job, clock.now_ms)
    return 'queued'
  end
  become_suspended(job, token, wanted, wake_at)
  return 'suspended'
end

return suspension
