-- Put jobs back into their queue from any state. A lease on them ends.
-- arguments: ARGV[1] clock offset, [2] '1' to give attempts back, [3] version of the limits; then per job: id, revision
--            at which it was read, limits
-- returns:   per job 'queued' or a refusal
-- refusals:  unknown_job, already_ended, unique_conflict, wrong_state (a group), unsettled, limits_changed (match
--            again)
-- flags: allow-oom
local STATE = require('constants').STATE
local batch = require 'batch'
local dependencies = require 'dependencies.dependencies'
local ending = require 'jobs.ending'
local index = require 'jobs.index'
local record = require 'jobs.record'
local requeue = require 'jobs.requeue'
local limits = require 'limits.limits'
local wake_takers = require 'workers.wake_takers'

return function(arguments)
  local is_stale = limits.have_changed(arguments[3])

  local function requeue_one(id, revision, job_limits)
    local job = record.load(id)
    if not job then return ending.missing(id) end
    if record.is_ended(job) then return requeue.requeue(job, revision, job_limits) end
    if record.has(job, 'joins') then return 'wrong_state' end
    if job.state == STATE.waiting and dependencies.is_unsettled(id, 'f0', 'f1') then return 'unsettled' end
    if record.is_leased(job) and arguments[2] == '1' then job.attempt = math.max(0, job.attempt - 1) end
    index.leave(job)
    record.unmark(job, 'cancel_requested')
    record.unmark(job, 'held')
    job.token, job.deadline, job.worker = 0, 0, record.NOBODY
    job.state, job.ready_at = STATE.queued, job.created_at
    index.enter(job)
    record.save(job)
    return 'queued'
  end

  local answers = {}
  for i = 4, #arguments, 3 do
    table.insert(answers, is_stale and 'limits_changed' or requeue_one(arguments[i], tonumber(arguments[i + 1]), arguments[i + 2]))
  end
  batch.flush()
  wake_takers.wake_all()
  return answers
end
