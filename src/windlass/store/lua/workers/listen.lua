-- Register a background loop for wakeups: it is woken when something becomes due earlier than it knew.
-- arguments: ARGV[1] clock offset, [2] wakeup list, [3] registration in ms
-- returns:   {now, next instant at which the scheduler or the recoverer is needed (0: none)}
-- refusals:  none
-- flags: allow-oom
local clock = require 'clock'
local keys = require 'keys'
local wakeups = require 'workers.wakeups'

return function(arguments)
  local following = redis.call('EXISTS', keys.steps()) == 1 and clock.now_ms or math.huge
  for _, timer in ipairs({'timers:due', 'timers:lease', 'timers:ring', 'schedules'}) do
    local first = redis.call('ZRANGE', keys.named(timer), 0, 0, 'WITHSCORES')
    following = math.min(following, tonumber(first[2] or math.huge))
  end
  -- Register for as long as the loop will sleep, so that others can see what it would sleep past.
  wakeups.register('', arguments[2], '', math.max(0, math.min(tonumber(arguments[3]), following - clock.now_ms)))
  return {clock.now_ms, following < math.huge and following or 0}
end
