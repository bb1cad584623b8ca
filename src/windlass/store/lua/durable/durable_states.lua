-- Return the durable state of jobs as stored. Read-only.
-- arguments: ids
-- returns:   per job {now, {field, value, ...}} (durable/state.lua) or a refusal
-- refusals:  unknown_job, already_ended
-- flags: no-writes
local clock = require 'clock'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local keys = require 'keys'
local script = require 'script'

local function read(id)
  local job = record.load(id)
  if not job then return ending.missing(id) end
  local fields = record.has(job, 'durable') and redis.call('HGETALL', keys.durable(id)) or {}
  return {clock.now_ms, fields}
end

return function(arguments)
  return script.map(arguments, 2, 1, read)
end
