-- Stop a schedule from firing until it is resumed.
-- arguments: ARGV[1] clock offset, [2] name, [3] reason
-- returns:   revision
-- refusals:  unknown_schedule
-- flags: allow-oom
-- uses: keys, schedules
local name = ARGV[2]
if revision_of_schedule(name) == 0 then return 'unknown_schedule' end
redis.call('HSET', schedule_key(name), 'paused', ARGV[3])
redis.call('ZADD', P .. 'schedules', '+inf', name)
return redis.call('HINCRBY', schedule_key(name), 'revision', 1)
