-- Set the weights of lanes in a fair queue, and return all weights that are not 1.
-- arguments: ARGV[1] clock offset, [2] queue; then lane, weight, ... (none: only read)
-- returns:   {lane, weight, ...}
-- refusals:  none
-- flags: allow-oom
local keys = require 'keys'

return function(arguments)
  local key = keys.weights(arguments[2])
  for i = 3, #arguments, 2 do
    if arguments[i + 1] == '1' then redis.call('HDEL', key, arguments[i]) else redis.call('HSET', key, arguments[i], arguments[i + 1]) end
  end
  if #arguments > 2 then
    redis.call('HINCRBY', keys.queue(arguments[2]), 'bytes', 0)
    redis.call('SADD', keys.queues(), arguments[2])
  end
  return redis.call('HGETALL', key)
end
