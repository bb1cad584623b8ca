-- Return how full a limit is: a page of its keys that have running jobs or block lanes, or the limit as a whole.
-- arguments: ARGV[1] clock offset, [2] number, [3] cursor ('0' to start), [4] about how many
-- returns:   {now, next cursor ('0' at the end), {{limit key, running, blocked lanes, room (-1: no bound), next token
--            at (0: does not apply)}, ...}}
-- refusals:  none
-- flags: no-writes
-- uses: keys, clock, lanes, limits
local function level_of(holdup)
  local limit, lanes = definition_of(holdup), 0
  for _, queue in ipairs(redis.call('SMEMBERS', P .. 'parked_in:' .. holdup)) do
    lanes = lanes + redis.call('ZCARD', line_of(queue, holdup))
  end
  local room = room_of('', holdup)
  return {holdup, redis.call('ZCARD', P .. 'holders:' .. holdup), lanes, room < math.huge and room or -1,
    limit and limit.is_rate and next_token_at(holdup, limit) or 0}
end

local page = redis.call('SSCAN', P .. 'held:' .. ARGV[2], ARGV[3], 'COUNT', ARGV[4])
local levels = {}
for i, holdup in ipairs(page[2]) do levels[i] = level_of(holdup) end
if ARGV[3] == '0' and redis.call('SISMEMBER', P .. 'held:' .. ARGV[2], ARGV[2]) == 0 then
  table.insert(levels, 1, level_of(ARGV[2]))
end
return {now_ms, page[1], levels}
