-- Set the weights of lanes in a fair queue, and return all weights that are not 1.
-- arguments: queue; then per lane: lane, weight. Without lanes it only reads
-- returns:   {lane, weight, ...}
-- refusals:  none
-- flags: allow-oom
local keys = require 'keys'

return function(arguments, queue)
  local key = keys.weights(queue)
  for i = 3, #arguments, 2 do
    local lane, weight = unpack(arguments, i, i + 1)
    if weight == '1' then redis.call('HDEL', key, lane) else redis.call('HSET', key, lane, weight) end
  end
  if #arguments > 2 then
    redis.call('HINCRBY', keys.queue(queue), 'bytes', 0)
    redis.call('SADD', keys.queues(), queue)
  end
  return redis.call('HGETALL', key)
end
