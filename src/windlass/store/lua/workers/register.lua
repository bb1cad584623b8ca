-- Register a worker. Registering again replaces its description.
-- arguments: ARGV[1] clock offset, [2] worker (16 bytes), [3] heartbeat interval in ms, [4] wakeup list ('': none),
--            [5] description, [6] slots \1 queue \1 queue... of a push worker (else '')
-- returns:   now
-- refusals:  none
-- flags: allow-oom
-- uses: keys, clock, wakeups, push_workers
local key = P .. 'w:' .. ARGV[2]
redis.call('HSET', key, 'description', ARGV[5], 'beat_ms', ARGV[3], 'bell', ARGV[4])
redis.call('HSETNX', key, 'started_at', now_ms)
redis.call('ZADD', P .. 'workers', now_ms + tonumber(ARGV[3]), ARGV[2])
describe_push(ARGV[2], ARGV[6])
return now_ms
