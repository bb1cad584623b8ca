-- Create or change a schedule.
-- arguments: ARGV[1] clock offset, [2] name, [3] expected revision (0: there is none yet), [4] definition, [5] next
--            occurrence ('': unchanged)
-- returns:   revision
-- refusals:  revision_conflict
-- uses: keys, clock, schedules
local name = ARGV[2]
local revision = revision_of_schedule(name)
if revision ~= tonumber(ARGV[3]) then return 'revision_conflict' end
local key = schedule_key(name)
redis.call('HSET', key, 'definition', ARGV[4], 'revision', revision + 1)
redis.call('HSETNX', key, 'created_at', now_ms)
redis.call('ZADD', P .. 'schedule_names', 0, name)
if ARGV[5] ~= '' then plan_schedule(name, tonumber(ARGV[5])) end
return revision + 1
