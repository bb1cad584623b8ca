-- Return the numbers that were assigned to jobs (operation number). Assigns none. Read-only.
-- arguments: ids
-- returns:   per job its number as text ('': it has none), or a refusal
-- refusals:  unknown_job, already_ended
-- flags: no-writes
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local keys = require 'keys'
local script = require 'script'

local function number_of(id)
  local job = record.load(id)
  if not job then return ending.missing(id) end
  return record.has(job, 'has_number') and redis.call('HGET', keys.numbers(), id) or ''
end

return function(arguments)
  return script.map(arguments, 2, 1, number_of)
end
