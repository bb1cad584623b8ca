-- Create or change a schedule.
-- arguments: name, expected_revision (0: there is no such schedule yet), definition, next_at ('': unchanged)
-- returns:   revision
-- refusals:  revision_conflict
local clock = require 'clock'
local keys = require 'keys'
local schedules = require 'schedules'

return function(_, name, expected_revision, definition, next_at)
  local revision = schedules.revision_of(name)
  if revision ~= tonumber(expected_revision) then return 'revision_conflict' end
  local key = keys.schedule(name)
  redis.call('HSET', key, 'definition', definition, 'revision', revision + 1)
  redis.call('HSETNX', key, 'created_at', clock.now_ms)
  redis.call('ZADD', keys.schedule_names(), 0, name)
  if next_at ~= '' then schedules.plan(name, tonumber(next_at)) end
  return revision + 1
end
