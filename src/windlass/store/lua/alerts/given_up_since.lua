-- Count the callbacks that were given up after an instant, without messages about alerts: a message that could not be
-- delivered must not cause another.
-- arguments: within_ms (before now), kept_ms (how long given-up callbacks are kept), most (callbacks that are examined)
-- returns:   {now, number}
-- refusals:  none
-- flags: no-writes
local clock = require 'clock'
local keys = require 'keys'

return function(_, within_ms, kept_ms, most)
  local from = clock.now_ms - tonumber(within_ms) + tonumber(kept_ms)
  local found = redis.call('ZRANGEBYSCORE', keys.given_up(), string.format('(%.0f', from), '+inf', 'LIMIT', 0, most)
  local number = 0
  for _, callback in ipairs(found) do
    if redis.call('HEXISTS', keys.callback(callback), 'is_alert') == 0 then number = number + 1 end
  end
  return {clock.now_ms, number}
end
