-- Record the outcomes of pushes.
-- arguments: ARGV[1] clock offset; then per job: id, token, worker (16 bytes), outcome ('accepted', 'unknown': the
--            worker does not know the name, 'unreachable', 'gone'), lease_ms if accepted
-- returns:   per job 'running', 'queued', 'scheduled', 'cancelled' or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
-- Without name lanes, a queue cannot keep jobs of this name from the worker: the job waits instead.
local STATE = require('constants').STATE
local batch = require 'batch'
local clock = require 'clock'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local lease = require 'leases.lease'
local reports = require 'leases.reports'
local configuration = require 'queues.configuration'
local push_workers = require 'workers.push_workers'
local wake_takers = require 'workers.wake_takers'

local UNTOLD_APART_MS = 1000

local function give_back_unknown(job)
  if configuration.of(job.queue).name_lanes == 1 or record.has(job, 'cancel_requested') then return reports.release(job) end
  job.attempt = math.max(0, job.attempt - 1)
  reports.put_back(job, clock.now_ms + UNTOLD_APART_MS)
  return 'scheduled'
end

local function note(worker, outcome, job)
  if outcome == 'accepted' then push_workers.clear_failures(worker) end
  if outcome == 'unknown' and job then push_workers.note_unknown_name(worker, job.name) end
  if outcome == 'unreachable' then push_workers.suspend(worker) end
  if outcome == 'gone' then push_workers.drop(worker) end
end

local function pushed(id, token, worker, outcome, lease_ms)
  local job, refused = reports.find_held(id, token)
  note(worker, outcome, job)
  if not job then return refused end
  -- A late answer does not change a running job.
  if outcome == 'accepted' or job.state ~= STATE.dispatched then
    lease.accept(id, token, lease_ms)
    return 'running'
  end
  return outcome == 'unknown' and give_back_unknown(job) or reports.release(job)
end

return function(arguments)
  local answers = {}
  for i = 2, #arguments, 5 do
    table.insert(answers, pushed(arguments[i], tonumber(arguments[i + 1]), arguments[i + 2], arguments[i + 3], tonumber(arguments[i + 4])))
    batch.flush()
  end
  wake_takers.wake_all()
  ending.trim_histories()
  return answers
end
