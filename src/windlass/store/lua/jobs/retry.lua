-- Queue failed or cancelled jobs again, with all of their attempts, at the request of a person.
-- arguments: version (of the limits); then per job: id, revision (at which it was read), limits
-- returns:   per job 'queued' or a refusal
-- refusals:  unknown_job, already_ended, wrong_state, unique_conflict, unsettled, limits_changed (match again)
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
  return requeue.requeue(job, revision, job_limits)
end

return function(arguments, version)
  local is_stale = limits.have_changed(version)
  local answers = script.map(arguments, 3, 3, function(id, revision, job_limits)
    return is_stale and 'limits_changed' or retry(id, tonumber(revision), job_limits)
  end)
  commit.run()
  return answers
end
