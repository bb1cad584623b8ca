-- Resume a paused schedule from its next occurrence.
-- arguments: ARGV[1] clock offset, [2] name, [3] expected revision, [4] next occurrence (0: it is over)
-- returns:   revision
-- refusals:  unknown_schedule, revision_conflict
-- flags: allow-oom
-- uses: schedules
local name = ARGV[2]
local revision = revision_of_schedule(name)
if revision == 0 then return 'unknown_schedule' end
if revision ~= tonumber(ARGV[3]) then return 'revision_conflict' end
redis.call('HDEL', schedule_key(name), 'paused')
plan_schedule(name, tonumber(ARGV[4]))
return redis.call('HINCRBY', schedule_key(name), 'revision', 1)
