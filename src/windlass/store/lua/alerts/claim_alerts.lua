-- Return all alert rules with their states, to one caller per interval: any number of servers may ask. Without rules
-- nothing is written.
-- arguments: interval_ms
-- returns:   {now, {name, rule, ...}, {name, state, ...}}; no rules when there are none, or it is too early
-- refusals:  none
-- flags: allow-oom
local clock = require 'clock'
local keys = require 'keys'

-- An instant beyond the interval comes from a clock that was ahead, and would stop the evaluation.
local function is_early(interval_ms)
  local due = tonumber(redis.call('GET', keys.alerts_due()) or 0)
  return due > clock.now_ms and due <= clock.now_ms + interval_ms
end

return function(_, interval_ms)
  interval_ms = tonumber(interval_ms)
  if redis.call('EXISTS', keys.alerts()) == 0 or is_early(interval_ms) then return {clock.now_ms, {}, {}} end
  redis.call('SET', keys.alerts_due(), string.format('%.0f', clock.now_ms + interval_ms))
  return {clock.now_ms, redis.call('HGETALL', keys.alerts()), redis.call('HGETALL', keys.alert_states())}
end
