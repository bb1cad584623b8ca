-- Check whether keys agree with each other. On request, repair those that do not, in the same step.
-- arguments: repairs ('1': repair), count (about how many entries to check); then per key: name (without the root),
--            cursor (within it; '0' to start)
-- returns:   {jobs checked, {code, example, 1 when repaired, ...}, {key, cursor, ... still to be checked}}
-- refusals:  none
-- flags: allow-oom
local commit = require 'commit'
local checkup = require 'doctor.checkup'
local findings = require 'doctor.findings'

return function(arguments, repairs, count)
  findings.begin(repairs == '1', tonumber(count))
  local left = {}
  for i = 4, #arguments, 2 do
    local name, cursor = unpack(arguments, i, i + 1)
    if findings.has_budget() then cursor = checkup.examine_key(name, cursor) end
    if cursor then
      left[#left + 1] = name
      left[#left + 1] = cursor
    end
  end
  commit.run()
  local jobs, rows = findings.collect()
  return {jobs, rows, left}
end
