-- Past incidents of alert rules.
local keys = require 'keys'

local alerts = {}

-- Keep an incident that has ended; '': there is none.
function alerts.keep_past(past, most)
  if past == '' then return end
  redis.call('LPUSH', keys.alert_history(), past)
  redis.call('LTRIM', keys.alert_history(), 0, most - 1)
end

return alerts
