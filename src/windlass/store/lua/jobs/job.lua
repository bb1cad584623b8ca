-- Return jobs with their unsuccessful attempts. Read-only.
-- arguments: ids
-- returns:   per job {record, {attempt, ...}} or a refusal
-- refusals:  unknown_job, already_ended
-- flags: no-writes
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local keys = require 'keys'
local script = require 'script'

local function read_job(id)
  local raw = redis.call('GET', keys.job(id))
  if not raw then return ending.missing(id) end
  local job = record.decode(id, raw)
  return {raw, record.has(job, 'has_attempts') and redis.call('LRANGE', keys.attempts(id), 0, -1) or {}}
end

return function(arguments)
  return script.map(arguments, 2, 1, read_job)
end
