-- Remove a schedule. The jobs it created stay.
-- arguments: ARGV[1] clock offset, [2] name, [3] revision guard (0: none)
-- returns:   1
-- refusals:  unknown_schedule, revision_conflict
-- flags: allow-oom
-- uses: keys, schedules
local name, guard = ARGV[2], tonumber(ARGV[3])
local revision = revision_of_schedule(name)
if revision == 0 then return 'unknown_schedule' end
if guard > 0 and guard ~= revision then return 'revision_conflict' end
redis.call('DEL', schedule_key(name), schedule_jobs_key(name))
redis.call('ZREM', P .. 'schedules', name)
redis.call('ZREM', P .. 'schedule_names', name)
return 1
