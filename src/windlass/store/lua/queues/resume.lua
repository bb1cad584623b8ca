-- Resume takes from a queue, a lane or a name, and wake waiting takers.
-- arguments: ARGV[1] clock offset, [2] queue, [3] what: '' the queue, 'l' + lane, 'n' + name
-- returns:   1 when it was paused
-- refusals:  none
-- flags: allow-oom
-- uses: keys, config, blocked_lanes, wake_takers
local queue, what = ARGV[2], ARGV[3]
local key, removed = queue_key('q', queue), 0
if what == '' then
  removed = redis.call('HDEL', key, 'paused')
  opened[queue] = true
else
  removed = redis.call('HDEL', queue_key('pauses', queue), what)
  local left = redis.call('HLEN', queue_key('pauses', queue))
  if left > 0 then redis.call('HSET', key, 'pauses', left) else redis.call('HDEL', key, 'pauses') end
  open_line(queue, what)
end
if removed == 1 then ring_all() end
return removed
