-- Record the outcomes of pushes.
-- arguments: per job: id, token, worker (16 bytes), outcome ('accepted', 'unknown': the worker does not know the name,
--            'busy', 'unreachable', 'gone'), duration_ms (accepted: of the lease, unless it is fixed, 0: the job's or
--            the queue's; busy: of the pause, 0: a growing one)
-- returns:   per job 'running', 'queued', 'scheduled', 'cancelled' or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
local STATE = require('constants').STATE
local batch = require 'batch'
local clock = require 'clock'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local lease = require 'leases.lease'
local reports = require 'leases.reports'
local configuration = require 'queues.configuration'
local script = require 'script'
local push_workers = require 'workers.push_workers'
local wake_takers = require 'workers.wake_takers'

local UNKNOWN_PAUSE_MS = 1000

-- Give back a job whose name the worker does not know. Without name lanes, a queue cannot keep jobs of this name from
-- the worker: the job waits instead.
local function give_back_unknown(job)
  local has_name_lanes = configuration.of(job.queue).name_lanes == 1
  if has_name_lanes or record.has(job, 'cancel_requested') then return reports.release(job) end
  job.attempt = math.max(0, job.attempt - 1)
  reports.put_back(job, clock.now_ms + UNKNOWN_PAUSE_MS)
  return 'scheduled'
end

local function note_outcome(worker, outcome, duration_ms, job)
  if outcome == 'accepted' then push_workers.clear_failures(worker) end
  if outcome == 'unknown' and job then push_workers.note_unknown_name(worker, job.name) end
  if outcome == 'busy' then push_workers.pause(worker, duration_ms) end
  if outcome == 'unreachable' then push_workers.suspend(worker) end
  if outcome == 'gone' then push_workers.drop(worker) end
end

local function record_push(id, token, worker, outcome, duration_ms)
  local job, refused = reports.find_held(id, token)
  note_outcome(worker, outcome, duration_ms, job)
  if not job then return refused end
  -- A late answer does not change a running job.
  if outcome == 'accepted' or job.state ~= STATE.dispatched then
    lease.accept(id, token, lease.fixed_ms(job) or (outcome == 'accepted' and duration_ms or 0))
    return 'running'
  end
  return outcome == 'unknown' and give_back_unknown(job) or reports.release(job)
end

return function(arguments)
  local answers = script.map(arguments, 2, 5, function(id, token, worker, outcome, duration_ms)
    local answer = record_push(id, tonumber(token), worker, outcome, tonumber(duration_ms))
    batch.flush()
    return answer
  end)
  wake_takers.wake_all()
  ending.trim_histories()
  return answers
end
