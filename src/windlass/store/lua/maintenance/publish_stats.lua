-- Store the latest figures of an instance of a component, for a while. Instances whose figures have expired are
-- removed.
-- arguments: ARGV[1] clock offset, [2] component, [3] instance, [4] lifetime in ms, [5] figures (opaque), [6] most
--            instances
-- returns:   1
-- refusals:  too_large (too many instances)
local clock = require 'clock'
local keys = require 'keys'

return function(arguments)
  local key, for_ms = keys.stats(arguments[2]), tonumber(arguments[4])
  local known, others = redis.call('HGETALL', key), 0
  for i = 1, #known, 2 do
    if struct.unpack('>I6', known[i + 1]) <= clock.now_ms then
      redis.call('HDEL', key, known[i])
    elseif known[i] ~= arguments[3] then
      others = others + 1
    end
  end
  if others >= tonumber(arguments[6]) then return 'too_large' end
  redis.call('HSET', key, arguments[3], struct.pack('>I6', clock.now_ms + for_ms) .. arguments[5])
  redis.call('PEXPIRE', key, for_ms)
  return 1
end
