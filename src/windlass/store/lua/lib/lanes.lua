-- uses: keys, batch, record
-- Lanes other than the default one: their heads and the index of their names follow what is in them.
local touched_lanes
at_start[#at_start + 1] = function() touched_lanes = {} end

-- A job's lane, from its record alone: '' is the default lane.
local function lane_of(r)
  if has(r, 'name_lane') then return r.lane .. '\0' .. r.name end
  if r.lane ~= '' then return r.lane .. '\0' end
  return ''
end
local function name_of_lane(lane) return string.match(lane, '%z(.*)$') end

local function place_in_lane(r)
  return struct.pack('>I6I6', r.ready_at, r.sequence) .. r.id
end
local function id_in_place(member) return string.sub(member, 13, 28) end

local function first_of(key)
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return first[1], first[2]
end

-- Must be called before a lane changes: remembers the head that `heads` has for it.
local function touch_lane(queue, lane)
  local key = lane_key(queue, lane)
  if not touched_lanes[key] then
    local head, score = first_of(key)
    touched_lanes[key] = {queue = queue, lane = lane, head = head, score = score}
  end
end

after_flush[#after_flush + 1] = function()
  for key, change in pairs(touched_lanes) do
    local head, score = first_of(key)
    if head ~= change.head or score ~= change.score then
      local heads, names = queue_key('heads', change.queue), queue_key('names', change.queue)
      local name_entry = name_of_lane(change.lane) .. '\0' .. change.lane
      if change.head then redis.call('ZREM', heads, change.head .. change.lane) end
      if head then redis.call('ZADD', heads, score, head .. change.lane) end
      if not change.head then redis.call('ZADD', names, 0, name_entry) end
      if not head then redis.call('ZREM', names, name_entry) end
    end
  end
  touched_lanes = {}
end
