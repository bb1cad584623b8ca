-- Return a page of schedule names, in byte order.
-- arguments: ARGV[1] clock offset, [2] last name of the previous page ('': from the start), [3] most
-- returns:   {name, ...}
-- refusals:  none
-- flags: no-writes
-- uses: keys
local from = ARGV[2] == '' and '-' or '(' .. ARGV[2]
return redis.call('ZRANGEBYLEX', P .. 'schedule_names', from, '+', 'LIMIT', 0, tonumber(ARGV[3]))
