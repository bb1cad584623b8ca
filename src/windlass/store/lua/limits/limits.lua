-- Return all limits of a partition, for callers that match jobs against them.
-- arguments: none
-- returns:   {version, version whose jobs are still being matched again (0: none), {number, kind, amount and burst +
--            definition, ...}}
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'

return function()
  return {
    tonumber(redis.call('GET', keys.limits_version()) or 0), tonumber(redis.call('GET', keys.rematch()) or 0),
    redis.call('HGETALL', keys.limits()),
  }
end
