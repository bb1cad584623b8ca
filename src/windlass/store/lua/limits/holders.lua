-- Return a page of the jobs that run under a limit, or under one key of it, longest running first.
-- arguments: ARGV[1] clock offset, [2] limit key: number, or number:key, [3] how many to skip, [4] most
-- returns:   {how many there are, {id, since, ...}}
-- refusals:  none
-- flags: no-writes
-- uses: keys
local key, from = P .. 'holders:' .. ARGV[2], tonumber(ARGV[3])
return {redis.call('ZCARD', key), redis.call('ZRANGE', key, from, from + tonumber(ARGV[4]) - 1, 'WITHSCORES')}
