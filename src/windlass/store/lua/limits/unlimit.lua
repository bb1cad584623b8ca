-- Remove a limit. limits/reopen.lua releases the lanes that it blocks, in steps.
-- arguments: name
-- returns:   {number, version of the limits, previous content} or a refusal
-- refusals:  unknown_limit
-- flags: allow-oom
local keys = require 'keys'

return function(_, name)
  local number = redis.call('HGET', keys.limit_names(), name)
  if not number then return 'unknown_limit' end
  redis.call('HDEL', keys.limit_names(), name)
  local before = redis.call('HGET', keys.limits(), number)
  redis.call('HDEL', keys.limits(), number)
  local version = redis.call('INCR', keys.limits_version())
  redis.call('SET', keys.rematch(), version)
  return {tonumber(number), version, before}
end
