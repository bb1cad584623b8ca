-- Return all alert rules with their states, and past incidents.
-- arguments: most (past incidents)
-- returns:   {now, {name, rule, ...}, {name, state, ...}, {past incident, ...}}
-- refusals:  none
-- flags: no-writes
local clock = require 'clock'
local keys = require 'keys'

return function(_, most)
  local past = most ~= '0' and redis.call('LRANGE', keys.alert_history(), 0, tonumber(most) - 1) or {}
  return {clock.now_ms, redis.call('HGETALL', keys.alerts()), redis.call('HGETALL', keys.alert_states()), past}
end
