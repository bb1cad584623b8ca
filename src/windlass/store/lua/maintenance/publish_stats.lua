-- Store the latest figures of an instance of a component, for a while. Instances whose figures have expired are
-- removed.
-- arguments: component, instance, for_ms (lifetime), figures (opaque), most (instances)
-- returns:   1
-- refusals:  too_large (too many instances)
local clock = require 'clock'
local keys = require 'keys'

-- Remove expired instances. Returns how many others than this instance are left.
local function count_others(key, instance)
  local known, others = redis.call('HGETALL', key), 0
  for i = 1, #known, 2 do
    if struct.unpack('>I6', known[i + 1]) <= clock.now_ms then
      redis.call('HDEL', key, known[i])
    elseif known[i] ~= instance then
      others = others + 1
    end
  end
  return others
end

return function(_, component, instance, for_ms, figures, most)
  for_ms = tonumber(for_ms)
  local key = keys.stats(component)
  if count_others(key, instance) >= tonumber(most) then return 'too_large' end
  redis.call('HSET', key, instance, struct.pack('>I6', clock.now_ms + for_ms) .. figures)
  redis.call('PEXPIRE', key, for_ms)
  return 1
end
