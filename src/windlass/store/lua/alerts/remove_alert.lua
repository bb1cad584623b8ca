-- Remove an alert rule with its state. An open incident ends without a message and is kept as a past one.
-- arguments: name, past (the incident that ends; '': none is open), most (past incidents that are kept)
-- returns:   1
-- refusals:  unknown_alert
-- flags: allow-oom
local alerts = require 'alerts'
local keys = require 'keys'

return function(_, name, past, most)
  if redis.call('HDEL', keys.alerts(), name) == 0 then return 'unknown_alert' end
  redis.call('HDEL', keys.alert_states(), name)
  alerts.keep_past(past, tonumber(most))
  return 1
end
