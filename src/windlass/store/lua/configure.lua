-- Sets properties of a queue, and reads them all. Turning on name lanes starts to move what waits (see relane).
-- arguments: ARGV[1] clock offset, [2] queue; then field, value, ... (none: only read; value '': back to the default)
-- returns:   {field, value, ...} as stored
-- refusals:  none
-- flags: allow-oom
-- uses: keys
local key = queue_key('q', ARGV[2])
for i = 3, #ARGV, 2 do
  if ARGV[i + 1] == '' then redis.call('HDEL', key, ARGV[i]) else redis.call('HSET', key, ARGV[i], ARGV[i + 1]) end
end
if #ARGV > 2 then
  redis.call('HINCRBY', key, 'bytes', 0)
  redis.call('SADD', P .. 'queues', ARGV[2])
end
return redis.call('HGETALL', key)
