-- End the wait of jobs now, whatever they wait for. A group finishes.
-- arguments: ids
-- returns:   per job 'queued', 'scheduled', 'finished' (a group) or a refusal
-- refusals:  unknown_job, already_ended, wrong_state (it is not waiting), unsettled
-- flags: allow-oom
local STATE = require('constants').STATE
local commit = require 'commit'
local dependencies = require 'dependencies.dependencies'
local propagation = require 'dependencies.propagation'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local script = require 'script'

local function wake(id)
  local job = record.load(id)
  if not job then return ending.missing(id) end
  if job.state ~= STATE.waiting then return 'wrong_state' end
  if dependencies.is_unsettled(id, 'f0', 'f1') then return 'unsettled' end
  return propagation.end_wait(job)
end

return function(arguments)
  local answers = script.map(arguments, 2, 1, wake)
  commit.run()
  return answers
end
