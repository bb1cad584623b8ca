-- Create a limit, or replace the content of the limit with that name.
-- arguments: ARGV[1] clock offset, [2] name, [3] kind, amount and burst (limits.lua) + definition as the callers keep
--            it
-- returns:   {number, version of the limits, previous content ('': none)}
-- refusals:  none
-- flags: allow-oom
local keys = require 'keys'

return function(arguments)
  local number = redis.call('HGET', keys.limit_names(), arguments[2])
  if not number then
    number = redis.call('INCR', keys.limit_number())
    redis.call('HSET', keys.limit_names(), arguments[2], number)
  end
  local before = redis.call('HGET', keys.limits(), number) or ''
  redis.call('HSET', keys.limits(), number, arguments[3])
  local version = redis.call('INCR', keys.limits_version())
  redis.call('SET', keys.rematch(), version)
  return {tonumber(number), version, before}
end
