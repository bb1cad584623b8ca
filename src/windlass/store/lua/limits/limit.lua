-- Create a limit, or replace the content of the limit with that name.
-- arguments: name, content (kind, amount and burst as in lib/limits/limits.lua + definition as the callers keep it)
-- returns:   {number, version of the limits, previous content ('': none)}
-- refusals:  none
-- flags: allow-oom
local keys = require 'keys'

return function(_, name, content)
  local number = redis.call('HGET', keys.limit_names(), name)
  if not number then
    number = redis.call('INCR', keys.limit_number())
    redis.call('HSET', keys.limit_names(), name, number)
  end
  local before = redis.call('HGET', keys.limits(), number) or ''
  redis.call('HSET', keys.limits(), number, content)
  local version = redis.call('INCR', keys.limits_version())
  redis.call('SET', keys.rematch(), version)
  return {tonumber(number), version, before}
end
