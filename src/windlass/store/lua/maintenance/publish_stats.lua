-- Store the latest figures of an instance of a component, for a while. Instances whose figures have expired are
-- removed.
-- arguments: ARGV[1] clock offset, [2] component, [3] instance, [4] lifetime in ms, [5] figures (opaque), [6] most
--            instances
-- returns:   1
-- refusals:  too_large (too many instances)
-- uses: keys, clock
local key, for_ms = P .. 'stats:' .. ARGV[2], tonumber(ARGV[4])
local known, others = redis.call('HGETALL', key), 0
for i = 1, #known, 2 do
  if struct.unpack('>I6', known[i + 1]) <= now_ms then
    redis.call('HDEL', key, known[i])
  elseif known[i] ~= ARGV[3] then
    others = others + 1
  end
end
if others >= tonumber(ARGV[6]) then return 'too_large' end
redis.call('HSET', key, ARGV[3], struct.pack('>I6', now_ms + for_ms) .. ARGV[5])
redis.call('PEXPIRE', key, for_ms)
return 1
