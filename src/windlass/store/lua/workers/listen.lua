-- Register a background loop for wakeups: it is woken when something becomes due earlier than it knew.
-- arguments: ARGV[1] clock offset, [2] wakeup list, [3] registration in ms
-- returns:   {now, next instant at which the scheduler or the recoverer is needed (0: none)}
-- refusals:  none
-- flags: allow-oom
-- uses: keys, clock, wakeups
local following = redis.call('EXISTS', P .. 'work') == 1 and now_ms or math.huge
for _, timer in ipairs({'timers:due', 'timers:lease', 'timers:ring', 'schedules'}) do
  local first = redis.call('ZRANGE', P .. timer, 0, 0, 'WITHSCORES')
  following = math.min(following, tonumber(first[2] or math.huge))
end
-- Register for as long as the loop will sleep, so that others can see what it would sleep past.
wait_for_ring('', ARGV[2], '', math.max(0, math.min(tonumber(ARGV[3]), following - now_ms)))
return {now_ms, following < math.huge and following or 0}
