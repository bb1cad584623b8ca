-- Set an alert rule. The state of a rule that exists stays.
-- arguments: name, rule (opaque), most (rules)
-- returns:   1
-- refusals:  too_large (too many rules)
local keys = require 'keys'

return function(_, name, rule, most)
  local is_known = redis.call('HEXISTS', keys.alerts(), name) == 1
  if not is_known and redis.call('HLEN', keys.alerts()) >= tonumber(most) then return 'too_large' end
  redis.call('HSET', keys.alerts(), name, rule)
  return 1
end
