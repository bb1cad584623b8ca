-- Return the log lines that are kept with a job. Read-only.
-- arguments: id
-- returns:   {entry, ...} (job_log.lua), oldest first
-- refusals:  unknown_job, already_ended (as a string)
-- flags: no-writes
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local keys = require 'keys'

return function(_, id)
  local job = record.load(id)
  if not job then return ending.missing(id) end
  return record.has(job, 'has_logs') and redis.call('LRANGE', keys.log(id), 0, -1) or {}
end
