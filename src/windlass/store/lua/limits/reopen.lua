-- Release the lanes that a changed or removed limit no longer blocks, a page of its keys at a time.
-- arguments: ARGV[1] clock offset, [2] number, [3] cursor ('0' to start), [4] about how many
-- returns:   next cursor ('0' at the end)
-- refusals:  none
-- flags: allow-oom
-- uses: keys, blocked_lanes, wake_takers
local page = redis.call('SSCAN', P .. 'held:' .. ARGV[2], ARGV[3], 'COUNT', ARGV[4])
for _, holdup in ipairs(page[2]) do open_lines(holdup) end
ring_all()
return page[1]
