-- Process messages of workers, in their order: they are idle, or they report on jobs. A worker acts on the jobs that it
-- holds. A job that returned to its queue and has no other holder is leased to the worker again when it reports on it.
-- arguments: ARGV[1] clock offset, [2] how long workers may be silent, in ms, which is also the lease of their jobs;
--            then per message: queue, worker (16 bytes), description, 'idle' | 'accepted' | 'progress' | 'finished' |
--            'heard', the job's unique key ('': none), its id ('': not known), age of the message in ms, for how many
--            ms the worker counts as idle (0: it is busy), progress in millionths, result
-- returns:   per message 'ok', the answer of finish, a refusal, or {id, token} of a finished repeating job, for which
--            the caller must call finish
-- refusals:  unknown_job, already_ended, stale_lease (another worker has it), wrong_state (it is not queued, or a limit
--            is full)
-- flags: allow-oom
local STATE = require('constants').STATE
local EVENT = require('constants').EVENT
local batch = require 'batch'
local events = require 'events'
local counters = require 'jobs.counters'
local ending = require 'jobs.ending'
local job_note = require 'jobs.job_note'
local record = require 'jobs.record'
local unique_keys = require 'jobs.unique_keys'
local keys = require 'keys'
local lease = require 'leases.lease'
local reports = require 'leases.reports'
local limits = require 'limits.limits'
local idle_workers = require 'workers.idle_workers'
local wake_takers = require 'workers.wake_takers'

local HELD_AT_ONCE = 100

local function find(queue, unique, id)
  local job = unique ~= '' and unique_keys.oldest_holder({queue = queue, unique = unique})
  if job or id == '' then return job, 'unknown_job' end
  job = record.load(id)
  if not job then return nil, ending.missing(id) end
  if job.queue ~= queue then return nil, 'unknown_job' end
  return job
end

local function awaits_acceptance(worker)
  for _, id in ipairs(redis.call('ZRANGE', keys.worker_jobs(worker), 0, HELD_AT_ONCE - 1)) do
    local job = record.load(id)
    if job and job.state == STATE.dispatched and job.worker == worker then return true end
  end
  return false
end

-- Workers that have finished a job also report that they are idle, before they can know that the finish has brought
-- them the next job. Without this check they would get two jobs.
local function is_echo(worker, what)
  local key = keys.worker(worker)
  if what == 'finished' then
    redis.call('HSET', key, 'echo', 1)
    return false
  end
  return redis.call('HDEL', key, 'echo') == 1 and what == 'idle' and awaits_acceptance(worker)
end

local DO = {}

function DO.idle() return 'ok' end

function DO.finished(job, _, _, result)
  if reports.ask_next_run(job, '', 0) then return {job.id, job.token} end
  return reports.finish(job.id, job.token, result, '', 0)
end

return function(arguments)
  local silent_ms = tonumber(arguments[2])

  local function take_again(job, worker)
    if record.links_of(job).limits ~= '' and limits.first_full(job.queue, record.links_of(job).limits) then return nil, 'wrong_state' end
    if not lease.may_start(job) then return nil, 'already_ended' end
    lease.grant(job, redis.call('INCR', keys.token()), {worker = worker, lease_ms = silent_ms, accept_ms = 0})
    counters.add(job.queue, 'taken', 1)
    batch.flush()
    return job
  end

  -- Return the job that the worker reports on, leased to it; else nil and the refusal.
  local function own(queue, worker, unique, id)
    local job, refused = find(queue, unique, id)
    if not job then return nil, refused end
    if record.is_leased(job) then
      if job.worker == worker then return job end
      return nil, 'stale_lease'
    end
    if record.is_ended(job) then return nil, 'already_ended' end
    if job.state ~= STATE.queued then return nil, 'wrong_state' end
    return take_again(job, worker)
  end

  local function take_on(job)
    if job.state == STATE.dispatched then lease.accept(job.id, job.token, silent_ms) end
    return lease.renew(job, silent_ms)
  end

  local function renew_all(worker)
    for _, id in ipairs(redis.call('ZRANGE', keys.worker_jobs(worker), 0, HELD_AT_ONCE - 1)) do
      local job = record.load(id)
      if job and job.state == STATE.running and job.worker == worker then lease.renew(job, silent_ms) end
    end
  end

  DO.heard = DO.idle

  function DO.accepted(job) return take_on(job) or 'ok' end

  function DO.progress(job, worker, progress)
    local refused = take_on(job)
    if refused then return refused end
    job.progress = tonumber(progress)
    record.save(job)
    events.announce(EVENT.progress, job, job_note.of(job))
    return 'ok'
  end

  local function hear(queue, worker, description, what, unique, id, age, idle_ms, progress, result)
    local is_there = idle_workers.note_report(worker, description, tonumber(age), silent_ms)
    if what == 'heard' or (is_there and is_echo(worker, what)) then return 'ok' end
    if what == 'progress' then renew_all(worker) end
    idle_workers.set_idle(queue, worker, tonumber(idle_ms))
    if what == 'idle' then return 'ok' end
    local job, refused = own(queue, worker, unique, id)
    if not job then return refused end
    return DO[what](job, worker, progress, result)
  end

  local answers = {}
  for i = 3, #arguments, 10 do table.insert(answers, hear(unpack(arguments, i, i + 9))) end
  batch.flush()
  wake_takers.wake_all()
  ending.trim_histories()
  return answers
end
