-- Return the first queues with leases that end, by the earliest of these instants: their jobs run. The timers are lower
-- bounds, so a queue whose jobs have just ended may be among them.
-- arguments: most
-- returns:   {queue, ...}
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'

return function(_, most)
  return redis.call('ZRANGE', keys.timer('lease'), 0, tonumber(most) - 1)
end
