-- A process that was rung for a queue and has nobody for it (any more) passes the ring on.
-- arguments: ARGV[1] clock offset, [2] bell of the caller, [3] queue, [4...] filters it no longer waits with
-- returns:   1 when somebody else was rung
-- refusals:  none
-- flags: allow-oom
-- uses: keys, ring
local queue = ARGV[3]
for i = 4, #ARGV do redis.call('ZREM', queue_key('waiters', queue), ARGV[2] .. '\1' .. ARGV[i]) end
local has_work = redis.call('EXISTS', queue_key('ready', queue), queue_key('heads', queue)) > 0
return has_work and ring(queue, nil) and 1 or 0
