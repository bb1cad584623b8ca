-- uses: keys, batch, record, config, fair
-- Lanes other than the default lane: keeps their heads and the index of their names up to date. The head of a lane is
-- in one line: in `heads`, or, while a limit or a pause blocks the lane, among the lanes blocked by it.
local touched_lanes, has_parked
at_start[#at_start + 1] = function() touched_lanes, has_parked = clean(touched_lanes), clean(has_parked) end

-- Return a job's lane, from its record alone: tenant \0 name \0 limits, the last only if there are any; \1 precedes the
-- tenant if the job is hidden. '' is the default lane.
local function lane_of(r)
  local is_hidden = has(r, 'hidden')
  if r.links == '' and r.lane == '' and not has(r, 'name_lane') and not is_hidden then return '' end
  local limits = links_of(r).limits
  local name = has(r, 'name_lane') and r.name or ''
  local tenant = is_hidden and '\1' .. r.lane or r.lane
  if limits ~= '' then return tenant .. '\0' .. name .. '\0' .. limits end
  if name ~= '' or tenant ~= '' then return tenant .. '\0' .. name end
  return ''
end
local function name_of_lane(lane) return string.match(lane, '^[^%z]*%z([^%z]*)') end
local function tenant_of_lane(lane) return string.match(lane, '^\1?([^%z]*)') end
local function is_hidden_lane(lane) return string.byte(lane) == 1 end
local function limits_of_lane(lane) return string.match(lane, '^[^%z]*%z[^%z]*%z(.*)$') or '' end

local function place_in_lane(r)
  return struct.pack('>I6I6', r.ready_at, r.sequence) .. r.id
end
local function id_in_place(member) return string.sub(member, 13, 28) end
local function lane_of_head(entry) return string.sub(entry, 29) end

-- With aging, a step of priority is worth `aging_ms` of waiting, so the order needs no clock.
local function score_in_lane(r, config)
  local aging_ms = config.aging_ms
  return aging_ms > 0 and r.priority * aging_ms + r.ready_at or r.priority
end

local function first_of(key)
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return first[1], first[2]
end

-- Return the limit key that blocks a lane (limits.lua), or nil.
local function parked_under(queue, lane)
  if has_parked[queue] == nil then has_parked[queue] = redis.call('EXISTS', queue_key('parked_at', queue)) == 1 end
  return has_parked[queue] and redis.call('HGET', queue_key('parked_at', queue), lane) or nil
end
local function line_of(queue, holdup)
  return holdup and P .. 'parked:' .. queue .. '\0' .. holdup or queue_key('heads', queue)
end

-- Return the entry of a lane in its line. If the queue is fair, or is being relaned, it begins with the virtual time at
-- which it was entered.
local function keeps_entered(queue) return is_fair(queue) or config_of(queue).is_relaning end
local function entry_of(queue, lane, member)
  local entered = keeps_entered(queue) and redis.call('HGET', queue_key('entered', queue), lane)
  return (entered or string.sub(member, 1, 6)) .. string.sub(member, 7) .. lane
end

local function enter_line(queue, lane, line, member, score)
  if is_fair(queue) then
    local order = order_bytes(virtual_time(queue, tenant_of_lane(lane)))
    redis.call('HSET', queue_key('entered', queue), lane, order)
    member = order .. string.sub(member, 7)
  elseif keeps_entered(queue) then
    redis.call('HDEL', queue_key('entered', queue), lane)
  end
  redis.call('ZADD', line, score, member .. lane)
end

-- Remember a lane's head. Must be called before the lane changes. `is_forced`: rewrite its entry in any case.
local function touch_lane(queue, lane, is_forced)
  local key = lane_key(queue, lane)
  if not touched_lanes[key] then
    local head, score = first_of(key)
    touched_lanes[key] = {queue = queue, lane = lane, head = head, score = score}
  end
  touched_lanes[key].is_forced = touched_lanes[key].is_forced or is_forced
end

local emptied -- {queue, limit key that blocked it} of lanes that are gone
at_start[#at_start + 1] = function() emptied = clean(emptied) end

local function forget_lane(queue, lane, holdup)
  if holdup then
    redis.call('HDEL', queue_key('parked_at', queue), lane)
    emptied[#emptied + 1] = {queue = queue, holdup = holdup}
  end
  if keeps_entered(queue) then redis.call('HDEL', queue_key('entered', queue), lane) end
end

after_flush[#after_flush + 1] = function()
  if next(touched_lanes) == nil then return end
  local touched = touched_lanes
  touched_lanes = {}
  for key, change in pairs(touched) do
    local head, score = first_of(key)
    if head ~= change.head or score ~= change.score or (head and change.is_forced) then
      local queue, lane, names = change.queue, change.lane, queue_key('names', change.queue)
      local holdup = change.head and parked_under(queue, lane)
      local line = line_of(queue, holdup)
      local name_entry = name_of_lane(lane) .. '\0' .. lane
      if change.head then redis.call('ZREM', line, entry_of(queue, lane, change.head)) end
      if head then enter_line(queue, lane, line, head, score) else forget_lane(queue, lane, holdup) end
      if not change.head then redis.call('ZADD', names, 0, name_entry) end
      if not head then redis.call('ZREM', names, name_entry) end
    end
  end
end
