-- Return the numbers of jobs that were not created under a number. Assigns a number to each job that has none.
-- arguments: ARGV[1] clock offset; then ids
-- returns:   per job its number as text, or a refusal
-- refusals:  unknown_job, already_ended
-- flags: allow-oom
local batch = require 'batch'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local keys = require 'keys'
local numbers = require 'numbers'

return function(arguments)
  local answers = {}
  for i = 2, #arguments do
    local job = record.load(arguments[i])
    if not job then
      answers[i - 1] = ending.missing(arguments[i])
    elseif record.has(job, 'has_number') then
      answers[i - 1] = redis.call('HGET', keys.numbers(), job.id)
    else
      answers[i - 1] = numbers.assign(job)
      record.save(job)
    end
  end
  batch.flush()
  return answers
end
