-- Remove a schedule. The jobs it created stay.
-- arguments: name, guard (revision; 0: none)
-- returns:   1
-- refusals:  unknown_schedule, revision_conflict
-- flags: allow-oom
local keys = require 'keys'
local schedules = require 'schedules'

return function(_, name, guard)
  guard = tonumber(guard)
  local revision = schedules.revision_of(name)
  if revision == 0 then return 'unknown_schedule' end
  if guard > 0 and guard ~= revision then return 'revision_conflict' end
  redis.call('DEL', keys.schedule(name), keys.schedule_jobs(name))
  redis.call('ZREM', keys.schedules(), name)
  redis.call('ZREM', keys.schedule_names(), name)
  return 1
end
