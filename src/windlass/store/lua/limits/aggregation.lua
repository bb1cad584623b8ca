-- Return one key of a limit whose keys may have their own caps.
-- arguments: ARGV[1] clock offset, [2] name of the limit, [3] key
-- returns:   {key, queued, scheduled or waiting, dispatched or running, cap + data kept with it ('': none)}
-- refusals:  unknown_limit
-- flags: no-writes
-- uses: keys, clock, caps
local number = redis.call('HGET', P .. 'limit_names', ARGV[2])
if not number then return 'unknown_limit' end
local holdup = number .. '=' .. ARGV[3]
local row = standing_of(holdup)
if is_over(holdup) then row[5] = '' end
return row
