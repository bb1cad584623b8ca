-- uses: keys, lanes, glob, filter, merge
-- Which jobs of a queue come next for a taker: ids in order, taken out of nothing yet.
-- With other lanes the best heads are merged; the walk is over lanes, never over jobs.
local LANES_WALKED = 1000 -- per call; a longer walk is continued by the caller, and others are served in between
local HEADS_READ = 100
local LANES_BY_NAME = 200

local function ids_of(members)
  local ids = {}
  for i, member in ipairs(members) do ids[i] = id_in_place(member) end
  return ids
end

local function pick_default_lane(queue, filter, most)
  local key = lane_key(queue, '')
  if filter.priority then
    return ids_of(redis.call('ZRANGEBYSCORE', key, filter.priority, filter.priority, 'LIMIT', 0, most))
  end
  return ids_of(redis.call('ZRANGE', key, 0, most - 1))
end

local function lanes_by_prefix(queue, from, to)
  local entries = redis.call('ZRANGEBYLEX', queue_key('names', queue), '[' .. from, '(' .. to, 'LIMIT', 0, LANES_BY_NAME + 1)
  if #entries > LANES_BY_NAME then return nil end
  local lanes = {}
  for i, entry in ipairs(entries) do lanes[i] = string.match(entry, '^[^%z]*%z(.*)$') end
  return lanes
end

-- Lanes that the names index narrows down, or nil when only a walk over the heads will do.
local function narrowed_lanes(queue, filter)
  if filter.kind == 'only' then
    local lanes = {}
    for _, name in ipairs(filter.list) do
      local of_name = lanes_by_prefix(queue, name .. '\0', name .. '\1')
      if not of_name then return nil end
      for _, lane in ipairs(of_name) do table.insert(lanes, lane) end
    end
    return lanes
  end
  if filter.kind == 'glob' then
    local prefix = literal_prefix(filter.pattern)
    local candidates = prefix ~= '' and lanes_by_prefix(queue, prefix, prefix .. '\255')
    if not candidates then return nil end
    local lanes = {}
    for _, lane in ipairs(candidates) do
      if wants_name(filter, name_of_lane(lane)) then lanes[#lanes + 1] = lane end
    end
    return lanes
  end
  return nil
end

-- Walks the heads in order until enough lanes are found: no more than `most` lanes can contribute, and the first that
-- match are the best. With an exact priority every lane counts: its head may hide a job of that priority.
-- Returns the lanes, and where the walk stopped (nil: it is through).
local function walk_heads(queue, filter, most, from, steps)
  local lanes, at = {}, from
  while at < from + steps do
    local members = redis.call('ZRANGE', queue_key('heads', queue), at, at + HEADS_READ - 1)
    for _, member in ipairs(members) do
      local lane = string.sub(member, 29)
      if wants_name(filter, name_of_lane(lane)) then
        lanes[#lanes + 1] = lane
        if #lanes == most and not filter.priority then return lanes, nil end
      end
    end
    if #members < HEADS_READ then return lanes, nil end
    at = at + HEADS_READ
  end
  return lanes, at
end

-- A short look at the best heads, then the index of names, then the long walk.
local function lanes_for(queue, filter, most, from)
  if from == 0 and filter.kind ~= 'only' and not filter.priority then
    local lanes, stopped_at = walk_heads(queue, filter, most, 0, HEADS_READ)
    if not stopped_at then return lanes, nil end
  end
  local narrowed = narrowed_lanes(queue, filter)
  if narrowed then return narrowed, nil end
  local lanes, stopped_at = walk_heads(queue, filter, most, from, LANES_WALKED)
  return lanes, (#lanes == 0 or filter.priority) and stopped_at or nil
end

local function pick_from_lanes(queue, filter, most, from)
  local fronts, resume = {}, nil
  if filter.kind == '' then add_front(fronts, queue, '', filter) end
  if filter.kind == '' and filter.priority then
    local members = redis.call('ZRANGEBYSCORE', queue_key('laned', queue), filter.priority, filter.priority, 'WITHSCORES', 'LIMIT', 0, most)
    local front = {key = queue_key('laned', queue), read = most, buffer = members, at = -1, priority = filter.priority}
    if advance(front, most) then insert_in_order(fronts, front) end
  else
    local lanes
    lanes, resume = lanes_for(queue, filter, most, from)
    for _, lane in ipairs(lanes) do add_front(fronts, queue, lane, filter) end
  end
  local ids = {}
  while #ids < most and #fronts > 0 do
    local front = table.remove(fronts, 1)
    table.insert(ids, id_in_place(front.member))
    if advance(front, 10) then insert_in_order(fronts, front) end
  end
  return ids, resume
end

-- Returns ids in order, and where to go on when a long walk over lanes found nothing yet.
local function pick(queue, filter, most, from)
  if redis.call('EXISTS', queue_key('heads', queue)) == 0 then
    if filter.kind ~= '' then return {} end
    return pick_default_lane(queue, filter, most)
  end
  return pick_from_lanes(queue, filter, most, from)
end
