-- Check whether keys agree with each other. On request, repair those that do not, in the same step.
-- arguments: ARGV[1] clock offset, [2] '1' to repair, [3] about how many entries to check; then per key: key without
--            the root, cursor within it ('0' to start)
-- returns:   {jobs checked, {code, example, 1 when repaired, ...}, {key, cursor, ... still to be checked}}
-- refusals:  none
-- flags: allow-oom
local batch = require 'batch'
local checkup = require 'doctor.checkup'
local findings = require 'doctor.findings'
local ending = require 'jobs.ending'
local wake_takers = require 'workers.wake_takers'

return function(arguments)
  findings.begin(arguments[2] == '1', tonumber(arguments[3]))
  local left = {}
  for i = 4, #arguments, 2 do
    local cursor = arguments[i + 1]
    if findings.has_budget() then cursor = checkup.examine_key(arguments[i], cursor) end
    if cursor then
      left[#left + 1] = arguments[i]
      left[#left + 1] = cursor
    end
  end
  batch.flush()
  wake_takers.wake_all()
  ending.trim_histories()
  local jobs, rows = findings.collect()
  return {jobs, rows, left}
end
