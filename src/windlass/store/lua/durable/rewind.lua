-- Drop steps of jobs that no worker holds: a step and all that were stored after it, or everything.
-- arguments: per job: id, step ('': everything)
-- returns:   per job the number of dropped steps, or a refusal
-- refusals:  unknown_job, already_ended, wrong_state (a worker holds it), unknown_step
-- flags: allow-oom
local commit = require 'commit'
local state = require 'durable.state'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local keys = require 'keys'
local script = require 'script'

local function rewind(id, name)
  local job = record.load(id)
  if not job then return ending.missing(id) end
  if record.is_leased(job) then return 'wrong_state' end
  local first = name ~= '' and state.load_step(job, name)
  if name ~= '' and not first then return 'unknown_step' end
  if not record.has(job, 'durable') then return 0 end
  local dropped = state.drop_steps(job, function(step) return not first or step.number >= first.number end)
  redis.call('HINCRBY', keys.durable(id), 'r', 1)
  if not first then redis.call('HDEL', keys.durable(id), 'o') end
  return dropped
end

return function(arguments)
  local answers = script.map(arguments, 2, 2, rewind)
  commit.run()
  return answers
end
