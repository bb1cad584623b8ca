-- Set the limits that jobs match now, after the limits have changed.
-- arguments: version (of the limits); then per job: id, revision (at which it was read), limits
-- returns:   per job 'ok' or a refusal; a job with a revision_conflict was matched when it was edited
-- refusals:  unknown_job, already_ended, revision_conflict, limits_changed (match again)
-- flags: allow-oom
local STATE = require('constants').STATE
local commit = require 'commit'
local dependencies = require 'dependencies.dependencies'
local ending = require 'jobs.ending'
local index = require 'jobs.index'
local record = require 'jobs.record'
local caps = require 'limits.caps'
local limits = require 'limits.limits'
local script = require 'script'

local function rematch(id, revision, job_limits)
  local job = record.load(id)
  if not job then return ending.missing(id) end
  if not dependencies.is_linked(job) then return 'already_ended' end -- an ended job with links may wait again
  if job.revision ~= revision then return 'revision_conflict' end
  local stands_in_lane = job.state == STATE.queued or record.has(job, 'retakeable')
  local payload = record.payload_of(job)
  if stands_in_lane then index.leave_lane(job) end
  caps.change_limits(job, job_limits)
  if stands_in_lane then index.enter_lane(job) end
  record.rewrite(job, payload)
  return 'ok'
end

return function(arguments, version)
  local is_stale = limits.have_changed(version)
  local answers = script.map(arguments, 3, 3, function(id, revision, job_limits)
    return is_stale and 'limits_changed' or rematch(id, tonumber(revision), job_limits)
  end)
  commit.run()
  return answers
end
