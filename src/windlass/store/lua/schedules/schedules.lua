-- Return a page of schedule names, in byte order.
-- arguments: ARGV[1] clock offset, [2] last name of the previous page ('': from the start), [3] most
-- returns:   {name, ...}
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'

return function(arguments)
  local from = arguments[2] == '' and '-' or '(' .. arguments[2]
  return redis.call('ZRANGEBYLEX', keys.schedule_names(), from, '+', 'LIMIT', 0, tonumber(arguments[3]))
end
