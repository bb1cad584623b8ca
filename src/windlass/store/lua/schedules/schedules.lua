-- Names of schedules in the order of their bytes, a page at a time.
-- arguments: ARGV[1] clock offset, [2] the last name of the page before ('': from the start), [3] most
-- returns:   {name, ...}
-- refusals:  none
-- flags: no-writes
-- uses: keys
local from = ARGV[2] == '' and '-' or '(' .. ARGV[2]
return redis.call('ZRANGEBYLEX', P .. 'schedule_names', from, '+', 'LIMIT', 0, tonumber(ARGV[3]))
