-- Merge of lanes: each lane is read from its front in small steps, and the fronts are kept in order.
local keys = require 'keys'
local order = require 'order'
local fair_share = require 'queues.fair_share'
local lanes = require 'queues.lanes'

local merge = {}

local function is_before(a, b)
  if a.score ~= b.score then return a.score < b.score end
  return order.is_before(a.place, b.place)
end

function merge.insert_in_order(fronts, front)
  local low, high = 1, #fronts + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_before(front, fronts[middle]) then high = middle else low = middle + 1 end
  end
  table.insert(fronts, low, front)
end

-- In a fair queue the tenant's virtual time replaces the ready time. Selected jobs advance it.
function merge.set_order(front)
  front.place = front.member
  if front.turns then
    front.at_turn = front.turns[front.tenant] or fair_share.virtual_time(front.queue, front.tenant)
    front.place = fair_share.order_bytes(front.at_turn) .. string.sub(front.member, 7)
  end
end
function merge.is_out_of_turn(front)
  return front.turns ~= nil and front.turns[front.tenant] ~= nil and front.turns[front.tenant] ~= front.at_turn
end
function merge.use_turn(front)
  if front.turns then front.turns[front.tenant] = front.at_turn + fair_share.turn_length(front.queue, front.tenant) end
end

-- Move to the next member of a lane. Members are read in small steps.
function merge.advance(front, step)
  if front.buffer and front.at + 2 <= #front.buffer then
    front.at = front.at + 2
  else
    local from = front.read
    local priority = front.priority
    if priority then
      front.buffer = redis.call('ZRANGEBYSCORE', front.key, priority, priority, 'WITHSCORES', 'LIMIT', from, step)
    else
      front.buffer = redis.call('ZRANGE', front.key, from, from + step - 1, 'WITHSCORES')
    end
    front.at = 1
    front.read = from + step
  end
  front.member, front.score = front.buffer[front.at], tonumber(front.buffer[front.at + 1])
  if front.member then merge.set_order(front) end
  return front.member ~= nil
end

-- `turns`: virtual times of tenants as this selection advances them; nil if the queue is not fair.
function merge.add_front(fronts, queue, lane, filter, turns)
  local front = {key = keys.lane(queue, lane), queue = queue, lane = lane, read = 0, priority = filter.priority,
    turns = turns, tenant = turns and lanes.tenant_in(lane)}
  if merge.advance(front, 4) then merge.insert_in_order(fronts, front) end
end

return merge
