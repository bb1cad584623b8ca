-- Pause takes from a queue, or from one lane or name of it. Running jobs continue.
-- arguments: queue, what ('' the queue, 'l' + lane, 'n' + name), reason
-- returns:   1 when it was not paused before; a new reason replaces the old one
-- refusals:  names_need_lanes
-- flags: allow-oom
local clock = require 'clock'
local keys = require 'keys'
local configuration = require 'queues.configuration'

return function(_, queue, what, reason)
  if string.sub(what, 1, 1) == 'n' and configuration.of(queue).name_lanes ~= 1 then return 'names_need_lanes' end
  local key = keys.queue(queue)
  local content = struct.pack('>I6', clock.now_ms) .. reason
  redis.call('HINCRBY', key, 'bytes', 0)
  redis.call('SADD', keys.queues(), queue)
  if what == '' then return redis.call('HSET', key, 'paused', content) end
  local added = redis.call('HSET', keys.pauses(queue), what, content)
  redis.call('HSET', key, 'pauses', redis.call('HLEN', keys.pauses(queue)))
  return added
end
