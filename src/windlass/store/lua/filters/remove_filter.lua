-- Remove a saved filter.
-- arguments: name
-- returns:   1
-- refusals:  unknown_filter
-- flags: allow-oom
local keys = require 'keys'

return function(_, name)
  return redis.call('HDEL', keys.filters(), name) == 1 and 1 or 'unknown_filter'
end
