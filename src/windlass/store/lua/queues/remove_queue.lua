-- Remove an empty queue: its properties, pauses, weights, counters, figures of tasks, and its name. Takers that wait
-- stay registered, and the next job creates the queue again.
-- arguments: queue
-- returns:   {jobs that it holds (0: it is removed), 1 when it existed}
-- refusals:  none
-- flags: allow-oom
local keys = require 'keys'
local contents = require 'queues.contents'

return function(_, queue)
  local jobs, existed = contents.count(queue), redis.call('SISMEMBER', keys.queues(), queue)
  if existed == 0 then existed = redis.call('EXISTS', unpack(contents.hour_keys(queue))) > 0 and 1 or 0 end
  if jobs == 0 then contents.remove(queue) end
  return {jobs, existed}
end
