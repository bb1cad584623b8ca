-- Set properties of a queue, and return all of them. relane.lua moves waiting jobs that belong elsewhere now, in steps.
-- arguments: ARGV[1] clock offset, [2] queue; then field, value, ... (none: only read; value '': reset to the default)
-- returns:   {field, value, ...} as stored
-- refusals:  none
-- flags: allow-oom
local keys = require 'keys'

local PLACING = {name_lanes = true, aging_ms = true, fair_share = true}

return function(arguments)
  local key = keys.queue(arguments[2])
  for i = 3, #arguments, 2 do
    local field, value = arguments[i], arguments[i + 1]
    local before = redis.call('HGET', key, field) or ''
    if value == '' then redis.call('HDEL', key, field) else redis.call('HSET', key, field, value) end
    if PLACING[field] and before ~= value then redis.call('HSET', key, 'relane', 'ready 0') end
  end
  if #arguments > 2 then
    redis.call('HINCRBY', key, 'bytes', 0)
    redis.call('SADD', keys.queues(), arguments[2])
  end
  return redis.call('HGETALL', key)
end
