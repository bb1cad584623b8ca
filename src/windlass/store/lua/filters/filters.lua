-- Return all saved filters.
-- arguments: none
-- returns:   {name, definition (opaque), ...}
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'

return function() return redis.call('HGETALL', keys.filters()) end
