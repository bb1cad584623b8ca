-- Add how the tasks of a worker ran since its last report to the figures of this minute.
-- arguments: worker (16 bytes), report (its number: the last one is not counted twice), most (tasks that a partition
--            lists); then per task: queue, name, counters (packed, task_figures.lua)
-- returns:   tasks that were not counted, because so many others are listed; or a refusal
-- refusals:  unknown_worker
local keys = require 'keys'
local script = require 'script'
local task_figures = require 'workers.task_figures'

local FIRST_TASK = 5

return function(arguments, worker, report, most)
  local key = keys.worker(worker)
  local beat_ms, last = unpack(redis.call('HMGET', key, 'beat_ms', 'task_report'))
  if not beat_ms then return 'unknown_worker' end
  if last == report then return 0 end
  local places, uncounted = task_figures.free_places(tonumber(most)), 0
  script.map(arguments, FIRST_TASK, 3, function(queue, name, packed)
    local taken = task_figures.add(queue, name, packed, places)
    places = places - (taken or 0)
    uncounted = uncounted + (taken and 0 or 1)
  end)
  redis.call('HSET', key, 'task_report', report)
  return uncounted
end
