-- Remove a limit. reopen.lua releases the lanes that it blocks, in steps.
-- arguments: ARGV[1] clock offset, [2] name
-- returns:   {number, version of the limits, previous content} or a refusal
-- refusals:  unknown_limit
-- flags: allow-oom
local keys = require 'keys'

return function(arguments)
  local number = redis.call('HGET', keys.limit_names(), arguments[2])
  if not number then return 'unknown_limit' end
  redis.call('HDEL', keys.limit_names(), arguments[2])
  local before = redis.call('HGET', keys.limits(), number)
  redis.call('HDEL', keys.limits(), number)
  local version = redis.call('INCR', keys.limits_version())
  redis.call('SET', keys.rematch(), version)
  return {tonumber(number), version, before}
end
