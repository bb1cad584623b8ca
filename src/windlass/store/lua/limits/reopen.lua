-- Release the lanes that a changed or removed limit no longer blocks, a page of its keys at a time.
-- arguments: number (of the limit), cursor ('0' to start), count (about how many)
-- returns:   next cursor ('0' at the end)
-- refusals:  none
-- flags: allow-oom
local keys = require 'keys'
local blocked_lanes = require 'limits.blocked_lanes'
local wake_takers = require 'workers.wake_takers'

return function(_, number, cursor, count)
  local page = redis.call('SSCAN', keys.limit_keys(number), cursor, 'COUNT', count)
  for _, limit_key in ipairs(page[2]) do blocked_lanes.open_lines(limit_key) end
  wake_takers.wake_all()
  return page[1]
end
