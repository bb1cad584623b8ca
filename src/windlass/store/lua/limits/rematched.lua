-- Record that all jobs were matched against this version of the limits. Has no effect if the limits changed again.
-- arguments: ARGV[1] clock offset, [2] version
-- returns:   1 when it is still the current version
-- refusals:  none
-- flags: allow-oom
local keys = require 'keys'

return function(arguments)
  if redis.call('GET', keys.rematch()) ~= arguments[2] then return 0 end
  redis.call('DEL', keys.rematch())
  return 1
end
