-- Counters of one queue per minute, for the last hours.
-- arguments: ARGV[1] clock offset, [2] queue, [3] number of hours (at most 48)
-- returns:   {now, {hour, {field, value, ...}, ...}}; a field is <minute>:<what>
-- refusals:  none
-- flags: no-writes
-- uses: keys, clock
local hour = math.floor(now_ms / 3600000)
local answer = {}
for back = tonumber(ARGV[3]), 0, -1 do
  table.insert(answer, hour - back)
  table.insert(answer, redis.call('HGETALL', P .. 'm:' .. ARGV[2] .. '\0' .. (hour - back)))
end
return {now_ms, answer}
