-- Moves waiting jobs of a queue into name lanes, a bounded number per call.
-- arguments: ARGV[1] clock offset, [2] queue, [3] most
-- returns:   number of jobs moved; 0 when none is left
-- refusals:  none
-- flags: allow-oom
-- uses: keys, batch, record, lanes, ring, place
local queue, most = ARGV[2], tonumber(ARGV[3])
local LANES_LOOKED_AT = 100

-- The default lane, and lanes whose name part is empty: their entries come first in the index of names.
local function nameless_lanes()
  local lanes = {''}
  for _, entry in ipairs(redis.call('ZRANGEBYLEX', queue_key('names', queue), '[\0', '(\1', 'LIMIT', 0, LANES_LOOKED_AT)) do
    table.insert(lanes, string.sub(entry, 2))
  end
  return lanes
end

if config_of(queue).name_lanes ~= 1 then return 0 end
local moved = 0
for _, lane in ipairs(nameless_lanes()) do
  if moved >= most then break end
  for _, member in ipairs(redis.call('ZRANGE', lane_key(queue, lane), 0, most - moved - 1)) do
    local r = load(id_in_place(member))
    if r then
      leave_lane(r)
      enter_lane(r)
      save(r)
      moved = moved + 1
    end
  end
end
flush()
ring_all()
return moved
