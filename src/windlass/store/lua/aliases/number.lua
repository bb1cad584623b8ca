-- Return the numbers of jobs that were not created under a number. Assigns a number to each job that has none.
-- arguments: ids
-- returns:   per job its number as text, or a refusal
-- refusals:  unknown_job, already_ended
-- flags: allow-oom
local batch = require 'batch'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local numbers = require 'numbers'
local script = require 'script'

local function number_of(id)
  local job = record.load(id)
  if not job then return ending.missing(id) end
  return numbers.of(job)
end

return function(arguments)
  local answers = script.map(arguments, 2, 1, number_of)
  batch.flush()
  return answers
end
