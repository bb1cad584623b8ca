-- Return a page of schedule names, in byte order, and the number of all schedules.
-- arguments: after (last name of the previous page; '': from the start), most
-- returns:   {number of schedules, {name, ...}}
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'

return function(_, after, most)
  local key, from = keys.schedule_names(), after == '' and '-' or '(' .. after
  return {redis.call('ZCARD', key), redis.call('ZRANGEBYLEX', key, from, '+', 'LIMIT', 0, tonumber(most))}
end
