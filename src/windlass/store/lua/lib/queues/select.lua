-- uses: keys, lanes, fair, limits, merge, config, scan
-- Selection of the next jobs of a queue for a taker: their ids in order. The jobs stay where they are. If the queue has
-- other lanes, the best heads are merged.
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

-- Add all lanes at one priority, from the index of all jobs. Only where nothing can block a lane.
local function add_laned_front(fronts, queue, filter, most)
  local front = {key = queue_key('laned', queue), queue = queue, lane = '', read = 0, priority = filter.priority}
  if advance(front, most) then insert_in_order(fronts, front) end
end

local function is_unlimited(queue)
  return config_of(queue).pauses == 0 and redis.call('EXISTS', P .. 'limits_version', queue_key('parked_at', queue)) == 0
end

-- Return the ids, and whether a front was left out because a limit had no room.
local function merge_fronts(queue, fronts, most)
  local ids, is_cut = {}, false
  while #ids < most and #fronts > 0 do
    local front = table.remove(fronts, 1)
    if is_out_of_turn(front) then
      set_place(front)
      insert_in_order(fronts, front)
    elseif held_back_by(queue, front.lane) then
      is_cut = true
    else
      ids[#ids + 1] = id_in_place(front.member)
      use_room(queue, front.lane)
      use_turn(front)
      if advance(front, 10) then insert_in_order(fronts, front) end
    end
  end
  return ids, is_cut
end

local function pick_from_lanes(queue, filter, most, from)
  local fronts, resume, turns = {}, nil, is_fair(queue) and {} or nil
  if filter.kind == '' then add_front(fronts, queue, '', filter, turns) end
  local may_see_all = filter.hidden or not config_of(queue).has_hidden
  if filter.kind == '' and filter.priority and not turns and may_see_all and is_unlimited(queue) then
    add_laned_front(fronts, queue, filter, most)
  else
    local lanes
    lanes, resume = lanes_for(queue, filter, most, from)
    for _, lane in ipairs(lanes) do add_front(fronts, queue, lane, filter, turns) end
  end
  local ids, is_cut = merge_fronts(queue, fronts, most)
  return ids, resume, is_cut
end

-- Return ids in order; where to resume if a long scan over lanes found nothing yet; whether another selection, after
-- these jobs are taken, may find more.
local function pick(queue, filter, most, from)
  look_at_rooms_again()
  if config_of(queue).is_paused then return {} end
  if redis.call('EXISTS', queue_key('heads', queue), queue_key('room', queue)) == 0 then
    if filter.kind ~= '' then return {} end
    return pick_default_lane(queue, filter, most)
  end
  return pick_from_lanes(queue, filter, most, from)
end
