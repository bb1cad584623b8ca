-- Ask a worker to stop gracefully: it learns of it with its next heartbeat. No more jobs are pushed to it.
-- arguments: ARGV[1] clock offset, [2] worker (16 bytes)
-- returns:   1, or 0 when it was asked before
-- refusals:  unknown_worker
-- flags: allow-oom
-- uses: keys, clock, push_workers
local key = P .. 'w:' .. ARGV[2]
local said = redis.call('HMGET', key, 'beat_ms', 'push')
if not said[1] then return 'unknown_worker' end
if said[2] and said[2] ~= '' then describe_push(ARGV[2], '') end
return redis.call('HSETNX', key, 'stopping', now_ms)
