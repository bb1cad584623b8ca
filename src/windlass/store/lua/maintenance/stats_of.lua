-- Return the latest figures of the instances of a component that have not expired.
-- arguments: component
-- returns:   {instance, figures (opaque), ...}
-- refusals:  none
-- flags: no-writes
local clock = require 'clock'
local keys = require 'keys'

return function(_, component)
  local known, found = redis.call('HGETALL', keys.stats(component)), {}
  for i = 1, #known, 2 do
    if struct.unpack('>I6', known[i + 1]) > clock.now_ms then
      found[#found + 1] = known[i]
      found[#found + 1] = string.sub(known[i + 1], 7)
    end
  end
  return found
end
