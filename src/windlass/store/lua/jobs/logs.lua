-- Return the log lines that are kept with a job. Read-only.
-- arguments: ARGV[1] clock offset, [2] id
-- returns:   {entry, ...} (job_log.lua), oldest first
-- refusals:  unknown_job, already_ended (as a string)
-- flags: no-writes
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local keys = require 'keys'

return function(arguments)
  local job = record.load(arguments[2])
  if not job then return ending.missing(arguments[2]) end
  return record.has(job, 'has_logs') and redis.call('LRANGE', keys.log(job.id), 0, -1) or {}
end
