-- Return the tasks whose runs workers have reported within two days, or the figures of some tasks for a range of
-- minutes that ends now.
-- arguments: minutes (before the current one); then per task: queue, name. Without tasks: list them
-- returns:   without tasks {now, {queue \0 name, last report, ...}}, else {now, {per task {hour, {minute, counters
--            (packed, task_figures.lua), ...}, ...}}}
-- refusals:  none
-- flags: no-writes
local clock = require 'clock'
local keys = require 'keys'
local script = require 'script'

local FIRST_TASK = 3

return function(arguments, minutes)
  if #arguments < FIRST_TASK then
    return {clock.now_ms, redis.call('ZRANGE', keys.tasks(), 0, -1, 'WITHSCORES')}
  end
  local last = math.floor(clock.now_ms / 60000)
  local first_hour, last_hour = math.floor((last - tonumber(minutes)) / 60), math.floor(last / 60)
  return {clock.now_ms, script.map(arguments, FIRST_TASK, 2, function(queue, name)
    local found = {}
    for hour = first_hour, last_hour do
      found[#found + 1] = hour
      found[#found + 1] = redis.call('HGETALL', keys.task_figures(queue, name, hour))
    end
    return found
  end)}
end
