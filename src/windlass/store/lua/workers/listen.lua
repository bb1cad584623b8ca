-- Register a background loop for wakeups: it is woken when something becomes due earlier than it knew.
-- arguments: wakeup_list, registered_ms
-- returns:   {now, next instant at which the scheduler or the recoverer is needed (0: none)}
-- refusals:  none
-- flags: allow-oom
local clock = require 'clock'
local due = require 'due'
local keys = require 'keys'
local wakeups = require 'workers.wakeups'

return function(_, wakeup_list, registered_ms)
  local following = due.earliest(keys.timer('due'), keys.timer('lease'), keys.timer('ring'), keys.schedules())
  if redis.call('EXISTS', keys.steps()) == 1 then following = math.min(following, clock.now_ms) end
  -- Register for as long as the loop will sleep, so that others can see what it would sleep past.
  local for_ms = math.max(0, math.min(tonumber(registered_ms), following - clock.now_ms))
  wakeups.register('', wakeup_list, '', for_ms)
  return {clock.now_ms, due.answer(following)}
end
