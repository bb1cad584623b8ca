-- Stop the takers of this partition for a while, or let them continue. The mark is in the root key, by which every call
-- finds its node: scripts see it even while other keys are being moved to another node.
-- arguments: for_ms (0: continue), reason
-- returns:   1 when the mark is new, or was removed; else 0
-- refusals:  none
-- flags: allow-oom
local clock = require 'clock'
local keys = require 'keys'

return function(_, for_ms, reason)
  for_ms = tonumber(for_ms)
  if for_ms == 0 then return redis.call('HDEL', keys.root, 'stopped') end
  return redis.call('HSET', keys.root, 'stopped', string.format('%.0f %s', clock.now_ms + for_ms, reason))
end
