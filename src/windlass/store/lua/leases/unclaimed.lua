-- Return leases that are unknown to their holders, for holders that send no heartbeats. Read-only.
-- arguments: per holder: holder (16 bytes), ids (of all jobs that it holds, 16 bytes each)
-- returns:   per holder {id, token, ...}
-- refusals:  none
-- flags: no-writes
local reports = require 'leases.reports'
local script = require 'script'

return function(arguments)
  return script.map(arguments, 2, 2, reports.unclaimed_leases)
end
