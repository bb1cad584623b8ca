-- Checks of a job's record against everything that must agree with it.
local STATE = require('constants').STATE
local propagation = require 'dependencies.propagation'
local expected_index = require 'doctor.expected_index'
local findings = require 'doctor.findings'
local durable_state = require 'durable.state'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local keys = require 'keys'
local numbers = require 'numbers'
local queue_index = require 'queues.queue_index'
local script = require 'script'

local checkup_job = {}

local listed -- queues that were checked in this call
local highest -- the counters, read once per call
script.on_start(function() listed, highest = {}, {} end)

local function list_queue(queue)
  redis.call('SADD', keys.queues(), queue)
  redis.call('HINCRBY', keys.queue(queue), 'bytes', 0)
end

function checkup_job.check_listed(queue)
  if listed[queue] then return end
  listed[queue] = true
  if redis.call('SISMEMBER', keys.queues(), queue) == 0 or redis.call('EXISTS', keys.queue(queue)) == 0 then
    findings.report_queue('queue_not_listed', queue, function() list_queue(queue) end)
  end
  if queue_index.is_set(queue) and redis.call('SISMEMBER', keys.indexed_queues(), queue) == 0 then
    findings.report_queue('queue_not_listed', queue, function() queue_index.note_change(queue) end)
  end
end

function checkup_job.check_indexed_queue(queue)
  if queue_index.is_set(queue) then return end
  findings.report_queue('ghost', queue, function() queue_index.note_change(queue) end)
end

-- A counter that fell behind would give out a number twice.
function checkup_job.check_counter(name, number)
  highest[name] = highest[name] or tonumber(redis.call('GET', keys.named(name)) or 0)
  if number <= highest[name] then return end
  highest[name] = number
  findings.report_key('counter_behind', name, function()
    redis.call('SET', keys.named(name), string.format('%.0f', number))
  end)
end

local function check_index(job)
  for key, entry in pairs(expected_index.entries_of(job)) do
    if not expected_index.is_present(key, entry) then
      return findings.report_job('job_not_in_index', job.id, function() expected_index.restore(job) end)
    end
  end
end

local KEY_KIND = {has_attempts = 'a:', has_outcome = 'o:', has_logs = 'l:'}
local function check_belongings(job)
  for flag, kind in pairs(KEY_KIND) do
    if record.has(job, flag) and redis.call('EXISTS', keys.named(kind .. job.id)) == 0 then
      findings.report_job('belongings_lost', job.id, function()
        record.unmark(job, flag)
        record.save(job)
      end)
    end
  end
  if record.has(job, 'durable') and redis.call('EXISTS', keys.durable(job.id)) == 0 then
    findings.report_job('belongings_lost', job.id, function() durable_state.restore_empty(job) end)
  end
  if record.has(job, 'has_dependents') and redis.call('EXISTS', keys.dependents(job.id)) == 0 then
    findings.report_job('belongings_lost', job.id, function() propagation.release_claim(job.id) end)
  end
end

local function check_number(job)
  if record.has(job, 'has_number') and not redis.call('HGET', keys.numbers(), job.id) then
    findings.report_job('belongings_lost', job.id, function()
      record.unmark(job, 'has_number')
      record.save(job)
    end)
  end
end

-- Return whether a finished job was kept for other jobs that are gone.
local function is_kept_without_need(job)
  return job.state == STATE.finished and not record.has(job, 'in_history') and not record.has(job, 'has_dependents')
    and job.revision == 1 and record.policy_of(job).result_ttl_ms < record.FOREVER_MS
    and record.links_of(job).parent == record.NO_ID and not redis.call('ZSCORE', keys.retention(), job.id)
end

function checkup_job.check_job(id)
  local job, is_unreadable = expected_index.safe_load(id)
  findings.count_job()
  if is_unreadable then return findings.report_job('record_unreadable', id) end
  if not job then return end
  checkup_job.check_listed(job.queue)
  checkup_job.check_counter('token', job.token)
  checkup_job.check_counter('seq', job.sequence)
  checkup_job.check_counter('number', numbers.number_in(id) or 0)
  check_number(job)
  check_index(job)
  check_belongings(job)
  if is_kept_without_need(job) then
    findings.report_job('kept_for_nobody', id, function() ending.retire(job, false) end)
  end
  return job
end

return checkup_job
