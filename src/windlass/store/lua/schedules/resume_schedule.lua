-- Resume a paused schedule from its next occurrence.
-- arguments: ARGV[1] clock offset, [2] name, [3] expected revision, [4] next occurrence (0: it is over)
-- returns:   revision
-- refusals:  unknown_schedule, revision_conflict
-- flags: allow-oom
local keys = require 'keys'
local schedules = require 'schedules'

return function(arguments)
  local name = arguments[2]
  local revision = schedules.revision_of(name)
  if revision == 0 then return 'unknown_schedule' end
  if revision ~= tonumber(arguments[3]) then return 'revision_conflict' end
  redis.call('HDEL', keys.schedule(name), 'paused')
  schedules.plan(name, tonumber(arguments[4]))
  return redis.call('HINCRBY', keys.schedule(name), 'revision', 1)
end
