-- Process messages of workers, in their order: they are idle, or they report on jobs. A worker acts on the jobs that it
-- holds. A job that returned to its queue and has no other holder is leased to the worker again when it reports on it;
-- where leases are fixed, only when it accepts it.
-- arguments: silent_ms (how long workers may be silent, which is also the lease of their jobs, unless leases are
--            fixed); then per message:
--            queue, worker (16 bytes), description, kind ('idle' | 'accepted' | 'progress' | 'finished' | 'failed' |
--            'heard'), unique (key of the job; '': none), id (of the job; '': not known), age_ms (of the message),
--            idle_ms (for how long the worker counts as idle; 0: it is busy), progress (in millionths), result
-- returns:   per message 'ok', 'cancel_requested' (the worker should stop the job), the answer of finish, a refusal, or
--            {id, token} of a finished repeating job, for which the caller must call finish, or of a failed one, for
--            which it must call fail
-- refusals:  unknown_job, already_ended, stale_lease (another worker has it), wrong_state (it is not queued, or a limit
--            is full)
-- flags: allow-oom
local STATE = require('constants').STATE
local EVENT = require('constants').EVENT
local commit = require 'commit'
local events = require 'events'
local job_note = require 'jobs.job_note'
local record = require 'jobs.record'
local keys = require 'keys'
local lease = require 'leases.lease'
local reports = require 'leases.reports'
local script = require 'script'
local idle_workers = require 'workers.idle_workers'
local reported_jobs = require 'workers.reported_jobs'

-- Workers that have ended a job also report that they are idle, before they can know that the end has brought them the
-- next job. Without this check they would get two jobs.
local function is_echo(worker, kind)
  local key = keys.worker(worker)
  if kind == 'finished' or kind == 'failed' then
    redis.call('HSET', key, 'echo', 1)
    return false
  end
  local is_first = redis.call('HDEL', key, 'echo') == 1
  return is_first and kind == 'idle' and #reported_jobs.of_worker(worker, STATE.dispatched) > 0
end

local REPORT = {} -- by kind of message

local function answer(job) return record.has(job, 'cancel_requested') and 'cancel_requested' or 'ok' end

function REPORT.accepted(job, silent_ms) return reported_jobs.renew(job, silent_ms) or answer(job) end

function REPORT.progress(job, silent_ms, progress)
  local refused = reported_jobs.renew(job, silent_ms)
  if refused then return refused end
  job.progress = tonumber(progress)
  record.save(job)
  events.announce(EVENT.progress, job, job_note.of(job))
  return answer(job)
end

function REPORT.finished(job, _, _, result)
  if reports.ask_next_run(job, '', 0) then return {job.id, job.token} end
  return reports.finish(job.id, job.token, result, '', 0)
end

-- The caller decides on a retry, from the policy of the job.
function REPORT.failed(job) return {job.id, job.token} end

local function process(silent_ms, queue, worker, description, kind, unique, id, age_ms, idle_ms, progress, result)
  local is_present = idle_workers.note_report(worker, description, tonumber(age_ms), silent_ms)
  if kind == 'heard' or (is_present and is_echo(worker, kind)) then return 'ok' end
  if kind == 'progress' then
    for _, job in ipairs(reported_jobs.of_worker(worker, STATE.running)) do lease.renew(job, silent_ms) end
  end
  idle_workers.set_idle(queue, worker, tonumber(idle_ms))
  if kind == 'idle' then return 'ok' end
  local job, refused = reported_jobs.find(queue, unique, id)
  if job then job, refused = reported_jobs.hold(job, worker, silent_ms, kind == 'accepted') end
  if not job then return refused end
  return REPORT[kind](job, silent_ms, progress, result)
end

return function(arguments, silent_ms)
  silent_ms = tonumber(silent_ms)
  local answers = script.map(arguments, 3, 10, function(...) return process(silent_ms, ...) end)
  commit.run()
  return answers
end
