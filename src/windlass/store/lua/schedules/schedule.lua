-- Create or change a schedule.
-- arguments: ARGV[1] clock offset, [2] name, [3] expected revision (0: there is none yet), [4] definition, [5] next
--            occurrence ('': unchanged)
-- returns:   revision
-- refusals:  revision_conflict
local clock = require 'clock'
local keys = require 'keys'
local schedules = require 'schedules'

return function(arguments)
  local name = arguments[2]
  local revision = schedules.revision_of(name)
  if revision ~= tonumber(arguments[3]) then return 'revision_conflict' end
  local key = keys.schedule(name)
  redis.call('HSET', key, 'definition', arguments[4], 'revision', revision + 1)
  redis.call('HSETNX', key, 'created_at', clock.now_ms)
  redis.call('ZADD', keys.schedule_names(), 0, name)
  if arguments[5] ~= '' then schedules.plan(name, tonumber(arguments[5])) end
  return revision + 1
end
