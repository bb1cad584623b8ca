-- Keys of a limit that may have caps of their own, in the order of their names: what each has, and its cap.
-- arguments: ARGV[1] clock offset, [2] name of the limit, [3] key to go on after ('' to start), [4] most keys
-- returns:   {key to go on after ('': that was all), {{key, queued, scheduled or waiting, dispatched or running, cap + what
--            is kept with it ('': none)}, ...}}
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
