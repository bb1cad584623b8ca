-- Return the queues of jobs. Reads only the head of each record, so a large payload adds no cost.
-- arguments: ARGV[1] clock offset; then ids
-- returns:   per job {queue} or a refusal
-- refusals:  unknown_job, already_ended
-- flags: no-writes
local ending = require 'jobs.ending'
local record = require 'jobs.record'

return function(arguments)
  local answers = {}
  for i = 2, #arguments do
    local job = record.load(arguments[i])
    answers[i - 1] = job and {job.queue} or ending.missing(arguments[i])
  end
  return answers
end
