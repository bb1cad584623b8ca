-- Return how full a limit is: a page of its keys that have running jobs or block lanes, or the limit as a whole.
-- arguments: number (of the limit), cursor ('0' to start), count (about how many)
-- returns:   {now, next cursor ('0' at the end), {{limit key, running, blocked lanes, room (-1: no bound), next token
--            at (0: does not apply)}, ...}}
-- refusals:  none
-- flags: no-writes
local clock = require 'clock'
local keys = require 'keys'
local limits = require 'limits.limits'
local lanes = require 'queues.lanes'

local function level_of(limit_key)
  local limit, blocked = limits.definition_of(limit_key), 0
  for _, queue in ipairs(redis.call('SMEMBERS', keys.blocked_in(limit_key))) do
    blocked = blocked + redis.call('ZCARD', lanes.line_of(queue, limit_key))
  end
  local room = limits.room_of('', limit_key)
  return {limit_key, redis.call('ZCARD', keys.holders(limit_key)), blocked, room < math.huge and room or -1,
    limit and limit.is_rate and limits.next_token_at(limit_key, limit) or 0}
end

return function(_, number, cursor, count)
  local page = redis.call('SSCAN', keys.limit_keys(number), cursor, 'COUNT', count)
  local levels = {}
  for i, limit_key in ipairs(page[2]) do levels[i] = level_of(limit_key) end
  if cursor == '0' and redis.call('SISMEMBER', keys.limit_keys(number), number) == 0 then
    table.insert(levels, 1, level_of(number))
  end
  return {clock.now_ms, page[1], levels}
end
