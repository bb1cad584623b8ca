-- Resume a paused schedule from its next occurrence.
-- arguments: name, expected_revision, next_at (0: it is over)
-- returns:   revision
-- refusals:  unknown_schedule, revision_conflict
-- flags: allow-oom
local keys = require 'keys'
local schedules = require 'schedules'

return function(_, name, expected_revision, next_at)
  local revision = schedules.revision_of(name)
  if revision == 0 then return 'unknown_schedule' end
  if revision ~= tonumber(expected_revision) then return 'revision_conflict' end
  redis.call('HDEL', keys.schedule(name), 'paused')
  schedules.plan(name, tonumber(next_at))
  return redis.call('HINCRBY', keys.schedule(name), 'revision', 1)
end
