-- Return a page of the keys of a limit whose keys may have their own caps, by name: their jobs and their caps.
-- arguments: ARGV[1] clock offset, [2] name of the limit, [3] key to continue after ('' to start), [4] most keys
-- returns:   {key to continue after ('': no more), {{key, queued, scheduled or waiting, dispatched or running, cap +
--            data kept with it ('': none)}, ...}}
-- refusals:  unknown_limit
-- flags: no-writes
-- uses: keys, clock, limits, caps
local number = redis.call('HGET', P .. 'limit_names', ARGV[2])
if not number then return 'unknown_limit' end
local most = tonumber(ARGV[4])
local from = ARGV[3] == '' and '-' or '(' .. number .. '=' .. ARGV[3]
local found = redis.call('ZRANGEBYLEX', P .. 'keyed:' .. number, from, '+', 'LIMIT', 0, most)
local rows = {}
for _, holdup in ipairs(found) do
  if not is_over(holdup) then rows[#rows + 1] = standing_of(holdup) end
end
return {#found == most and key_of(found[most]) or '', rows}
