-- Selection of the next jobs of a queue for a taker: their ids in order. The jobs stay where they are. If the queue has
-- other lanes, the best heads are merged.
local keys = require 'keys'
local limits = require 'limits.limits'
local configuration = require 'queues.configuration'
local fair_share = require 'queues.fair_share'
local lanes = require 'queues.lanes'
local merge = require 'queues.merge'
local scan = require 'queues.scan'

local selection = {}

local function ids_of(members)
  local ids = {}
  for i, member in ipairs(members) do ids[i] = lanes.id_in_member(member) end
  return ids
end

local function ids_of_default_lane(queue, filter, most)
  local key = keys.lane(queue, '')
  if filter.priority then
    return ids_of(redis.call('ZRANGEBYSCORE', key, filter.priority, filter.priority, 'LIMIT', 0, most))
  end
  return ids_of(redis.call('ZRANGE', key, 0, most - 1))
end

-- Add all lanes at one priority, from the index of all jobs. Only where nothing can block a lane.
local function add_laned_front(fronts, queue, filter, most)
  local front = {key = keys.laned(queue), queue = queue, lane = '', read = 0, priority = filter.priority}
  if merge.advance(front, most) then merge.insert_in_order(fronts, front) end
end

local function is_unlimited(queue)
  if configuration.of(queue).pauses > 0 then return false end
  return redis.call('EXISTS', keys.limits(), keys.blocked_by(queue)) == 0
end

-- Return the ids, and whether a front was left out because a limit had no room.
local function merge_fronts(queue, fronts, most)
  local ids, is_cut = {}, false
  while #ids < most and #fronts > 0 do
    local front = table.remove(fronts, 1)
    if merge.is_out_of_turn(front) then
      merge.set_order(front)
      merge.insert_in_order(fronts, front)
    elseif limits.blocker_of(queue, front.lane) then
      is_cut = true
    else
      ids[#ids + 1] = lanes.id_in_member(front.member)
      limits.use_room(queue, front.lane)
      merge.use_turn(front)
      if merge.advance(front, 10) then merge.insert_in_order(fronts, front) end
    end
  end
  return ids, is_cut
end

local function ids_of_lanes(queue, filter, most, from)
  local fronts, resume, turns = {}, nil, fair_share.is_on(queue) and {} or nil
  if filter.kind == '' then merge.add_front(fronts, queue, '', filter, turns) end
  local may_see_all = filter.hidden or not configuration.of(queue).has_hidden
  if filter.kind == '' and filter.priority and not turns and may_see_all and is_unlimited(queue) then
    add_laned_front(fronts, queue, filter, most)
  else
    local chosen
    chosen, resume = scan.lanes_for(queue, filter, most, from)
    for _, lane in ipairs(chosen) do merge.add_front(fronts, queue, lane, filter, turns) end
  end
  local ids, is_cut = merge_fronts(queue, fronts, most)
  return ids, resume, is_cut
end

-- Return ids in order; where to resume if a long scan over lanes found nothing yet; whether another selection, after
-- these jobs are taken, may find more.
function selection.next_ids(queue, filter, most, from)
  limits.forget_rooms()
  if configuration.of(queue).is_paused then return {} end
  if redis.call('EXISTS', keys.heads(queue), keys.room(queue)) == 0 then
    if filter.kind ~= '' then return {} end
    return ids_of_default_lane(queue, filter, most)
  end
  return ids_of_lanes(queue, filter, most, from)
end

return selection
