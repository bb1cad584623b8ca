-- Checks of lists beside the jobs: queues, retention, schedules, pending callbacks, workers, and keys that belong to a
-- job.
local STATE = require('constants').STATE
local batch = require 'batch'
local clock = require 'clock'
local dependencies = require 'dependencies.dependencies'
local checkup_job = require 'doctor.checkup_job'
local expected_index = require 'doctor.expected_index'
local findings = require 'doctor.findings'
local record = require 'jobs.record'
local keys = require 'keys'
local reports = require 'leases.reports'
local numbers = require 'numbers'
local pending_callbacks = require 'pending_callbacks'
local schedules = require 'schedules'
local wakeups = require 'workers.wakeups'

local checkup_lists = {}

local function job_id_of(callback) return string.sub(callback, 1, 16) end

function checkup_lists.check_retention(id)
  local job, is_unreadable = expected_index.safe_load(id)
  if is_unreadable then return end
  local may_be_removed = job and record.is_ended(job) and not record.has(job, 'in_history')
  if may_be_removed and not dependencies.is_needed(job) then return end
  findings.report_job(job and 'retention_wrong' or 'ghost', id, function() batch.z_remove(keys.retention(), id) end)
end

local BELONGS = {
  a = 'has_attempts', o = 'has_outcome', l = 'has_logs', e = 'awaited', y = 'durable', x = 'durable',
}
function checkup_lists.check_belonging(kind, id)
  local job, is_unreadable = expected_index.safe_load(id)
  if is_unreadable or (job and record.has(job, BELONGS[kind])) then return end
  if not job then
    local name = kind .. ':' .. id
    return findings.report_key('orphan', name, function() redis.call('UNLINK', keys.named(name)) end)
  end
  findings.report_job('belongings_unmarked', id, function()
    record.mark(job, BELONGS[kind])
    record.save(job)
  end)
end

-- Check that both directions agree and that the job exists.
function checkup_lists.check_numbers(id, number)
  local job, is_unreadable = expected_index.safe_load(id)
  if is_unreadable then return end
  if not job then return findings.report_job('ghost', id, function() numbers.forget(id) end) end
  checkup_job.check_counter('number', tonumber(number))
  if record.has(job, 'has_number') and redis.call('HGET', keys.numbered(), number) == id then return end
  findings.report_job('belongings_unmarked', id, function()
    redis.call('HSET', keys.numbered(), number, id)
    record.mark(job, 'has_number')
    record.save(job)
  end)
end

function checkup_lists.check_numbered(number, id)
  if redis.call('HGET', keys.numbers(), id) == number then return end
  findings.report_job('ghost', id, function() redis.call('HDEL', keys.numbered(), number) end)
end

-- Check that the instant and the queue of a tombstone are both known. Half a tombstone is removed.
function checkup_lists.check_tombstone(id)
  if redis.call('HEXISTS', keys.tombstone_queues(), id) == 1 then return end
  findings.report_job('ghost', id, function() redis.call('ZREM', keys.tombstones(), id) end)
end

function checkup_lists.check_tombstone_queue(id)
  if redis.call('ZSCORE', keys.tombstones(), id) then return end
  findings.report_job('ghost', id, function() redis.call('HDEL', keys.tombstone_queues(), id) end)
end

function checkup_lists.check_schedule(name)
  local fields = redis.call('HMGET', keys.schedule(name), 'next_at', 'paused', 'revision')
  if not fields[3] then return findings.report_key('key_incomplete', 's:' .. name) end
  local at = tonumber(fields[1] or 0)
  local expected = (at == 0 or fields[2]) and math.huge or at
  local score = redis.call('ZSCORE', keys.schedules(), name)
  local is_right = score and tonumber(score) == expected and redis.call('ZSCORE', keys.schedule_names(), name) == '0'
  if is_right then return end
  findings.report_key('schedule_not_listed', 's:' .. name, function()
    redis.call('ZADD', keys.schedule_names(), 0, name)
    schedules.plan(name, at)
  end)
end

function checkup_lists.check_scheduled_name(index, name)
  if redis.call('EXISTS', keys.schedule(name)) == 1 then return end
  findings.report_key('ghost', 's:' .. name, function() redis.call('ZREM', keys.named(index), name) end)
end

function checkup_lists.check_schedule_jobs(name)
  if redis.call('EXISTS', keys.schedule(name)) == 1 then return end
  findings.report_key('orphan', 'sj:' .. name, function() redis.call('DEL', keys.schedule_jobs(name)) end)
end

local function is_listed_pending(callback, at)
  local destination = pending_callbacks.destination_of(callback)
  local marked_at = redis.call('ZSCORE', keys.destinations(), destination)
  if redis.call('ZSCORE', keys.destination(destination), callback) ~= at then return false end
  return marked_at and tonumber(marked_at) <= tonumber(at)
end

function checkup_lists.check_callback(callback)
  local at = redis.call('ZSCORE', keys.pending_callbacks(), callback)
  local removed_at = redis.call('ZSCORE', keys.given_up(), callback)
  if at and not removed_at and is_listed_pending(callback, at) then return end
  if removed_at and not at and redis.call('ZSCORE', keys.given_up_ids(), callback) then return end
  findings.report_job('callback_not_listed', job_id_of(callback), function()
    if removed_at and not at then return pending_callbacks.list_given_up(callback, removed_at) end
    pending_callbacks.unlist_given_up(callback)
    pending_callbacks.list(callback, pending_callbacks.destination_of(callback), at or clock.now_ms)
    wakeups.wake(pending_callbacks.PLACE, nil)
  end)
end

-- A state without its rule would be the state of a later rule of the same name.
function checkup_lists.check_alert_state(name)
  if redis.call('HEXISTS', keys.alerts(), name) == 1 then return end
  findings.report_key('ghost', 'alert_states:' .. name, function() redis.call('HDEL', keys.alert_states(), name) end)
end

-- Check an entry of a list of callbacks. `is_right`: the entry belongs in this list.
function checkup_lists.check_callback_entry(key, callback, is_right)
  if is_right and redis.call('EXISTS', keys.callback(callback)) == 1 then return end
  findings.report_job('ghost', job_id_of(callback), function() redis.call('ZREM', keys.named(key), callback) end)
end

function checkup_lists.check_destination_entry(destination, callback)
  local is_pending = redis.call('ZSCORE', keys.pending_callbacks(), callback)
  if is_pending and pending_callbacks.destination_of(callback) == destination then return end
  findings.report_job('ghost', job_id_of(callback), function()
    redis.call('ZREM', keys.destination(destination), callback)
    pending_callbacks.update_destination(destination)
  end)
end

function checkup_lists.check_destination(destination, at)
  local first = redis.call('ZRANGE', keys.destination(destination), 0, 0, 'WITHSCORES')
  if first[2] and tonumber(first[2]) == tonumber(at) then return end
  findings.report_key('ghost', 'od:' .. destination, function() pending_callbacks.update_destination(destination) end)
end

-- Find jobs that an active worker has not listed in two heartbeats. A single heartbeat proves little, because the
-- answer that brings the job may be late. The recoverer takes all jobs of a silent worker back.
local function check_unclaimed(worker, silent_at)
  local unclaimed, beat_ms = unpack(redis.call('HMGET', keys.worker(worker), 'unclaimed', 'beat_ms'))
  if not unclaimed or silent_at <= clock.now_ms then return end
  local beat_at = silent_at - tonumber(beat_ms)
  for id, packed in pairs(reports.read_noted(unclaimed)) do
    local noted_at, job = struct.unpack('>I6', packed), expected_index.safe_load(id)
    local is_held = job and job.state == STATE.running and job.worker == worker
    if is_held and job.started_at < noted_at and noted_at < beat_at then
      findings.report_job('lease_unclaimed', id, function() reports.release(job) end)
    end
  end
end

-- A worker without an entry in `workers` would stay forever. The repair makes the recoverer check it.
function checkup_lists.check_worker(worker)
  local silent_at = redis.call('ZSCORE', keys.workers(), worker)
  if silent_at then return check_unclaimed(worker, tonumber(silent_at)) end
  findings.report_key('worker_not_listed', 'w:' .. worker, function()
    redis.call('ZADD', keys.workers(), clock.now_ms, worker)
  end)
end

-- If the first entry of a list is long overdue, no background loop runs.
local BEHIND_MS = 300000
function checkup_lists.check_loops(name)
  local first = redis.call('ZRANGE', keys.named(name), 0, 0, 'WITHSCORES')[2]
  if first and tonumber(first) < clock.now_ms - BEHIND_MS then findings.report_key('loops_behind', name) end
end

-- Kinds of steps (dependencies.lua)
local IS_STEP = {
  ['r.'] = true, ['w.'] = true, f0 = true, f1 = true, el = true, ek = true, ea = true, eo = true,
  d0 = true, d6 = true, d7 = true, d8 = true, dx = true,
}

function checkup_lists.check_step(item)
  if #item == 18 and IS_STEP[string.sub(item, 1, 2)] then return end
  findings.report_key('unknown_key', 'work')
end

return checkup_lists
