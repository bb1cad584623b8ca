-- Put jobs back into their queue from any state. A lease on them ends.
-- arguments: returns_attempt ('1': do not count the attempt of a lease), version (of the limits); then per job: id,
--            revision (at which it was read), limits
-- returns:   per job 'queued' or a refusal
-- refusals:  unknown_job, already_ended, unique_conflict, wrong_state (a group), unsettled, limits_changed (match
--            again)
-- flags: allow-oom
local STATE = require('constants').STATE
local commit = require 'commit'
local dependencies = require 'dependencies.dependencies'
local durable_state = require 'durable.state'
local ending = require 'jobs.ending'
local index = require 'jobs.index'
local record = require 'jobs.record'
local requeue = require 'jobs.requeue'
local limits = require 'limits.limits'
local script = require 'script'

local function put_back(job, returns_attempt)
  if record.has(job, 'joins') then return 'wrong_state' end
  if job.state == STATE.waiting and dependencies.is_unsettled(job.id, 'f0', 'f1') then return 'unsettled' end
  if record.is_leased(job) and returns_attempt then job.attempt = math.max(0, job.attempt - 1) end
  index.leave(job)
  if job.state == STATE.suspended then durable_state.forget_waits(job) end
  record.unmark(job, 'cancel_requested')
  record.unmark(job, 'held')
  job.token, job.deadline, job.worker = 0, 0, record.NO_ID
  job.state, job.ready_at = STATE.queued, job.created_at
  index.enter(job)
  record.save(job)
  return 'queued'
end

return function(arguments, returns_attempt, version)
  local is_stale = limits.have_changed(version)
  local answers = script.map(arguments, 4, 3, function(id, revision, job_limits)
    if is_stale then return 'limits_changed' end
    local job = record.load(id)
    if not job then return ending.missing(id) end
    if record.is_ended(job) then return requeue.requeue(job, tonumber(revision), job_limits) end
    return put_back(job, returns_attempt == '1')
  end)
  commit.run()
  return answers
end
