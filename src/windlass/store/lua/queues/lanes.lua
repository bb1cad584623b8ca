-- Return a page of a queue's lanes by name, with their waiting jobs. The first page includes the default lane.
-- arguments: ARGV[1] clock offset, [2] queue, [3] cursor ('': from the start), [4] most
-- returns:   {now, next cursor ('' at the end), {{lane, jobs, ready time of its first, limit key that blocks it
--            ('': none)}, ...}}
-- refusals:  none
-- flags: no-writes
local clock = require 'clock'
local keys = require 'keys'
local lanes = require 'queues.lanes'

return function(arguments)
  local queue, most = arguments[2], tonumber(arguments[4])

  local function row_of(lane)
    local key = keys.lane(queue, lane)
    local first = lanes.head_of(key)
    return {lane, redis.call('ZCARD', key), first and struct.unpack('>I6', first) or 0, lanes.blocker_of(queue, lane) or ''}
  end

  local rows = {}
  if arguments[3] == '' then
    local default = row_of('')
    if default[2] > 0 then rows[1] = default end
  end
  local names = redis.call('ZRANGEBYLEX', keys.lane_names(queue), arguments[3] == '' and '-' or '(' .. arguments[3], '+',
    'LIMIT', 0, most + 1)
  for i = 1, math.min(most, #names) do
    rows[#rows + 1] = row_of(string.match(names[i], '^[^%z]*%z(.*)$'))
  end
  return {clock.now_ms, #names > most and names[most] or '', rows}
end
