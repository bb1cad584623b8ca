-- Return a page of schedule names, in byte order.
-- arguments: after (last name of the previous page; '': from the start), most
-- returns:   {name, ...}
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'

return function(_, after, most)
  local from = after == '' and '-' or '(' .. after
  return redis.call('ZRANGEBYLEX', keys.schedule_names(), from, '+', 'LIMIT', 0, tonumber(most))
end
