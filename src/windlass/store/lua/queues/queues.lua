-- Return a page of queue names.
-- arguments: cursor ('0' to start), count (about how many)
-- returns:   {next cursor ('0' at the end), {name, ...}}
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'

return function(_, cursor, count)
  return redis.call('SSCAN', keys.queues(), cursor, 'COUNT', count)
end
