-- Return the queues of jobs. Reads only the head of each record, so a large payload adds no cost.
-- arguments: ids
-- returns:   per job {queue} or a refusal
-- refusals:  unknown_job, already_ended
-- flags: no-writes
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local script = require 'script'

return function(arguments)
  return script.map(arguments, 2, 1, function(id)
    local job = record.load(id)
    return job and {job.queue} or ending.missing(id)
  end)
end
