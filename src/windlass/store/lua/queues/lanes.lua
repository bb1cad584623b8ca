-- Return a page of a queue's lanes by name, with their waiting jobs. The first page includes the default lane.
-- arguments: queue, cursor ('': from the start), most
-- returns:   {now, next cursor ('' at the end), {{lane, jobs, ready time of its first, limit key that blocks it
--            ('': none)}, ...}}
-- refusals:  none
-- flags: no-writes
local clock = require 'clock'
local keys = require 'keys'
local lanes = require 'queues.lanes'

local function describe(queue, lane)
  local key = keys.lane(queue, lane)
  local first = lanes.head_of(key)
  local ready_at = first and struct.unpack('>I6', first) or 0
  return {lane, redis.call('ZCARD', key), ready_at, lanes.blocker_of(queue, lane) or ''}
end

return function(_, queue, cursor, most)
  most = tonumber(most)
  local rows = {}
  if cursor == '' then
    local default = describe(queue, '')
    if default[2] > 0 then rows[1] = default end
  end
  local from = cursor == '' and '-' or '(' .. cursor
  local names = redis.call('ZRANGEBYLEX', keys.lane_names(queue), from, '+', 'LIMIT', 0, most + 1)
  for i = 1, math.min(most, #names) do
    rows[#rows + 1] = describe(queue, string.match(names[i], '^[^%z]*%z(.*)$'))
  end
  return {clock.now_ms, #names > most and names[most] or '', rows}
end
