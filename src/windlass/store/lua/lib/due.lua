-- Sorted sets whose scores are instants: entries that are due, and the next instant.
local clock = require 'clock'

local due = {}

-- Return members whose instant has come, or had come before another instant, earliest first.
function due.members(key, most, before)
  return redis.call('ZRANGEBYSCORE', key, '-inf', before or clock.now_ms, 'LIMIT', 0, most)
end

-- Return the earliest instant in these sorted sets; math.huge: there is none.
function due.earliest(...)
  local earliest = math.huge
  for _, key in ipairs({...}) do
    local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
    earliest = math.min(earliest, tonumber(first[2] or math.huge))
  end
  return earliest
end

-- Return an instant as callers get it: 0 if there is none.
function due.answer(at) return at < math.huge and at or 0 end

return due
