-- Return the waits of suspended jobs, without values. Read-only: for lists of jobs, which need no other steps. A wait
-- for a signal keeps its value: the schema of the signal, for a form.
-- arguments: ids
-- returns:   per job {now, suspended at (0: it is not suspended), {name, step, ...}} or a refusal;
--            steps as in durable/state.lua
-- refusals:  unknown_job, already_ended
-- flags: no-writes
local STATE = require('constants').STATE
local STEP_KIND = require('constants').STEP_KIND
local STEP_STATUS = require('constants').STEP_STATUS
local clock = require 'clock'
local waits = require 'durable.waits'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local keys = require 'keys'
local script = require 'script'

local function read(id)
  local job = record.load(id)
  if not job then return ending.missing(id) end
  if job.state ~= STATE.suspended then return {clock.now_ms, 0, {}} end
  local key, found = keys.durable(id), {}
  for _, wait in ipairs(waits.open_waits(job)) do
    found[#found + 1] = wait.name
    local packed = redis.call('HGET', key, 's' .. wait.name)
    local is_whole = wait.step.kind == STEP_KIND.signal and wait.step.status == STEP_STATUS.waiting
    found[#found + 1] = is_whole and packed or string.sub(packed, 1, -#wait.step.value - 1)
  end
  return {clock.now_ms, tonumber(redis.call('HGET', key, 't') or 0), found}
end

return function(arguments)
  return script.map(arguments, 2, 1, read)
end
