-- Set the weights of lanes in a fair queue, and return all weights that are not 1.
-- arguments: ARGV[1] clock offset, [2] queue; then lane, weight, ... (none: only read)
-- returns:   {lane, weight, ...}
-- refusals:  none
-- flags: allow-oom
-- uses: keys
local key = queue_key('weights', ARGV[2])
for i = 3, #ARGV, 2 do
  if ARGV[i + 1] == '1' then redis.call('HDEL', key, ARGV[i]) else redis.call('HSET', key, ARGV[i], ARGV[i + 1]) end
end
if #ARGV > 2 then
  redis.call('HINCRBY', queue_key('q', ARGV[2]), 'bytes', 0)
  redis.call('SADD', P .. 'queues', ARGV[2])
end
return redis.call('HGETALL', key)
