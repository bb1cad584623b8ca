-- Return a page of the audit log, newest first.
-- arguments: ARGV[1] clock offset, [2] id of the last entry of the previous page ('': from the newest), [3] most
-- returns:   {{id, {'e', instant (6 bytes) + entry}}, ...}
-- refusals:  none
-- flags: no-writes
-- uses: keys
local from = ARGV[2] == '' and '+' or '(' .. ARGV[2]
return redis.call('XREVRANGE', P .. 'audit', from, '-', 'COUNT', ARGV[3])
