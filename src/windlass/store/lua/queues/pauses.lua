-- Return the pauses of a queue.
-- arguments: queue
-- returns:   {what, since (6 bytes) + reason, ...}; what is '' for the queue, 'l' + lane, 'n' + name
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'

return function(_, queue)
  local answer = redis.call('HGETALL', keys.pauses(queue))
  local whole = redis.call('HGET', keys.queue(queue), 'paused')
  if whole then
    table.insert(answer, '')
    table.insert(answer, whole)
  end
  return answer
end
