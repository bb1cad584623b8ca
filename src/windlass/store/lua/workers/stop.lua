-- Stops the takers of this partition for a while, or lets them go on. The mark lies in the root, by which every call
-- finds its node: where the scripts run, it is seen, even while keys are on their way to another node.
-- arguments: ARGV[1] clock offset, [2] for ms (0: go on), [3] reason
-- returns:   1 when the mark is new, or was there and is gone; else 0
-- refusals:  none
-- flags: allow-oom
-- uses: clock
local for_ms = tonumber(ARGV[2])
if for_ms == 0 then return redis.call('HDEL', KEYS[1], 'stopped') end
return redis.call('HSET', KEYS[1], 'stopped', string.format('%.0f %s', now_ms + for_ms, ARGV[3]))
