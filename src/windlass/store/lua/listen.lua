-- The loops' own waiting place: they are rung when something becomes due earlier than anybody knew.
-- arguments: ARGV[1] clock offset, [2] bell, [3] registered for ms
-- returns:   {now, next due instant (0: none)}
-- refusals:  none
-- flags: allow-oom
-- uses: keys, clock
redis.call('ZADD', queue_key('waiters', ''), now_ms + tonumber(ARGV[3]), ARGV[2] .. '\1')
local first = redis.call('ZRANGE', P .. 'timers:due', 0, 0, 'WITHSCORES')
return {now_ms, tonumber(first[2] or 0)}
