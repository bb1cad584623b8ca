-- Stop a schedule from firing until it is resumed.
-- arguments: ARGV[1] clock offset, [2] name, [3] reason
-- returns:   revision
-- refusals:  unknown_schedule
-- flags: allow-oom
local keys = require 'keys'
local schedules = require 'schedules'

return function(arguments)
  local name = arguments[2]
  if schedules.revision_of(name) == 0 then return 'unknown_schedule' end
  redis.call('HSET', keys.schedule(name), 'paused', arguments[3])
  redis.call('ZADD', keys.schedules(), '+inf', name)
  return redis.call('HINCRBY', keys.schedule(name), 'revision', 1)
end
