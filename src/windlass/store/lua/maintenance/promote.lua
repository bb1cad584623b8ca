-- The scheduler's step: queue scheduled jobs whose time has come, and continue pending steps on dependencies.
-- arguments: ARGV[1] clock offset, [2] most queues, [3] most jobs per queue
-- returns:   {now, jobs moved, next due instant (0: none; now: steps are left)}
-- refusals:  none
-- flags: allow-oom
-- uses: keys, clock, wakeups, expiry, ending, propagation, wake_takers
local moved = 0
for _, queue in ipairs(redis.call('ZRANGEBYSCORE', P .. 'timers:due', '-inf', now_ms, 'LIMIT', 0, tonumber(ARGV[2]))) do
  moved = moved + promote(queue, tonumber(ARGV[3]))
end
local _, is_left = work_on()
ring_all()
trim_histories()
local first = redis.call('ZRANGE', P .. 'timers:due', 0, 0, 'WITHSCORES')
return {now_ms, moved, is_left and now_ms or tonumber(first[2] or 0)}
