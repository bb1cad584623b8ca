-- Queue failed or cancelled jobs again, with all of their attempts, at the request of a person.
-- arguments: ARGV[1] clock offset, [2] version of the limits; then per job: id, revision at which it was read, limits
-- returns:   per job 'queued' or a refusal
-- refusals:  unknown_job, already_ended, wrong_state, unique_conflict, unsettled, limits_changed (match again)
-- flags: allow-oom
local STATE = require('constants').STATE
local batch = require 'batch'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local requeue = require 'jobs.requeue'
local limits = require 'limits.limits'
local wake_takers = require 'workers.wake_takers'

local function retry(id, revision, limits)
  local job = record.load(id)
  if not job then return ending.missing(id) end
  if job.state ~= STATE.failed and job.state ~= STATE.cancelled then return 'wrong_state' end
  return requeue.requeue(job, revision, limits)
end

return function(arguments)
  local is_stale = limits.have_changed(arguments[2])
  local answers = {}
  for i = 3, #arguments, 3 do
    table.insert(answers, is_stale and 'limits_changed' or retry(arguments[i], tonumber(arguments[i + 1]), arguments[i + 2]))
  end
  batch.flush()
  wake_takers.wake_all()
  return answers
end
