-- Stop a schedule from firing until it is resumed.
-- arguments: name, reason
-- returns:   revision
-- refusals:  unknown_schedule
-- flags: allow-oom
local keys = require 'keys'
local schedules = require 'schedules'

return function(_, name, reason)
  if schedules.revision_of(name) == 0 then return 'unknown_schedule' end
  redis.call('HSET', keys.schedule(name), 'paused', reason)
  redis.call('ZADD', keys.schedules(), '+inf', name)
  return redis.call('HINCRBY', keys.schedule(name), 'revision', 1)
end
