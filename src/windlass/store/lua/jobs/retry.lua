-- Queue failed or cancelled jobs again, with all of their attempts, at the request of a person. Jobs that ended because
-- of such a job wait for it again. A job that needs jobs which have not ended waits for them.
-- arguments: version (of the limits); then per job: id, revision (at which it was read), limits
-- returns:   per job 'queued', 'waiting' or a refusal
-- refusals:  unknown_job, already_ended, wrong_state, unique_conflict, unsettled, member_failed (retry the job that it
--            waits for), limits_changed (match again)
-- flags: allow-oom
local STATE = require('constants').STATE
local commit = require 'commit'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local requeue = require 'jobs.requeue'
local limits = require 'limits.limits'
local script = require 'script'

local function retry(id, revision, job_limits)
  local job = record.load(id)
  if not job then return ending.missing(id) end
  if job.state ~= STATE.failed and job.state ~= STATE.cancelled then return 'wrong_state' end
  return requeue.retry(job, revision, job_limits)
end

return function(arguments, version)
  local is_stale = limits.have_changed(version)
  local answers = script.map(arguments, 3, 3, function(id, revision, job_limits)
    return is_stale and 'limits_changed' or retry(id, tonumber(revision), job_limits)
  end)
  commit.run()
  return answers
end
