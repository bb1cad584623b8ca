-- Return a page of queue names.
-- arguments: ARGV[1] clock offset, [2] cursor ('0' to start), [3] about how many
-- returns:   {next cursor ('0' at the end), {name, ...}}
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'

return function(arguments)
  return redis.call('SSCAN', keys.queues(), arguments[2], 'COUNT', arguments[3])
end
