-- Record that all jobs were matched against this version of the limits. Has no effect if the limits changed again.
-- arguments: version
-- returns:   1 when it is still the current version
-- refusals:  none
-- flags: allow-oom
local keys = require 'keys'

return function(_, version)
  if redis.call('GET', keys.rematch()) ~= version then return 0 end
  redis.call('DEL', keys.rematch())
  return 1
end
