-- Return leases that are unknown to their holders, for holders that send no heartbeats. Read-only.
-- arguments: ARGV[1] clock offset; then per holder: holder (16 bytes), ids of all jobs that it holds (16 bytes each)
-- returns:   per holder {id, token, ...}
-- refusals:  none
-- flags: no-writes
local reports = require 'leases.reports'

return function(arguments)
  local answers = {}
  for i = 2, #arguments, 2 do answers[#answers + 1] = reports.unclaimed_leases(arguments[i], arguments[i + 1]) end
  return answers
end
