-- Return the indexed payload fields of queues.
-- arguments: queues
-- returns:   per queue {fields of the queue, fields of producers of its jobs}, each joined by \2
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'
local script = require 'script'

return function(arguments)
  return script.map(arguments, 2, 1, function(queue)
    local found = redis.call('HMGET', keys.queue(queue), 'index', 'task_index')
    return {found[1] or '', found[2] or ''}
  end)
end
