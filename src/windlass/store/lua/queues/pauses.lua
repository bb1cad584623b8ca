-- Return the pauses of a queue.
-- arguments: ARGV[1] clock offset, [2] queue
-- returns:   {what, since (6 bytes) + reason, ...}; what is '' for the queue, 'l' + lane, 'n' + name
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'

return function(arguments)
  local answer = redis.call('HGETALL', keys.pauses(arguments[2]))
  local whole = redis.call('HGET', keys.queue(arguments[2]), 'paused')
  if whole then
    table.insert(answer, '')
    table.insert(answer, whole)
  end
  return answer
end
