-- Stop the takers of this partition for a while, or let them continue. The mark is in the root key, by which every call
-- finds its node: scripts see it even while other keys are being moved to another node.
-- arguments: ARGV[1] clock offset, [2] for ms (0: continue), [3] reason
-- returns:   1 when the mark is new, or was removed; else 0
-- refusals:  none
-- flags: allow-oom
-- uses: clock
local for_ms = tonumber(ARGV[2])
if for_ms == 0 then return redis.call('HDEL', KEYS[1], 'stopped') end
return redis.call('HSET', KEYS[1], 'stopped', string.format('%.0f %s', now_ms + for_ms, ARGV[3]))
