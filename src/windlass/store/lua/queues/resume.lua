-- Resume takes from a queue, a lane or a name, and wake waiting takers.
-- arguments: queue, what ('' the queue, 'l' + lane, 'n' + name)
-- returns:   1 when it was paused
-- refusals:  none
-- flags: allow-oom
local keys = require 'keys'
local blocked_lanes = require 'limits.blocked_lanes'
local wake_takers = require 'workers.wake_takers'

return function(_, queue, what)
  local key, removed = keys.queue(queue), 0
  if what == '' then
    removed = redis.call('HDEL', key, 'paused')
    blocked_lanes.opened[queue] = true
  else
    removed = redis.call('HDEL', keys.pauses(queue), what)
    local left = redis.call('HLEN', keys.pauses(queue))
    if left > 0 then redis.call('HSET', key, 'pauses', left) else redis.call('HDEL', key, 'pauses') end
    blocked_lanes.open_line(queue, what)
  end
  if removed == 1 then wake_takers.wake_all() end
  return removed
end
