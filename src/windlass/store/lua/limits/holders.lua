-- Jobs that run under a limit, or under one key of it, those first that have run longest.
-- arguments: ARGV[1] clock offset, [2] holdup: number, or number:key, [3] how many to pass over, [4] most
-- returns:   {how many there are, {id, since, ...}}
-- refusals:  none
-- flags: no-writes
-- uses: keys
local key, from = P .. 'holders:' .. ARGV[2], tonumber(ARGV[3])
return {redis.call('ZCARD', key), redis.call('ZRANGE', key, from, from + tonumber(ARGV[4]) - 1, 'WITHSCORES')}
