-- uses: order, lanes, keys
-- Lanes side by side: each is read from its front in small steps, and the fronts are kept in order.
local function is_before(a, b)
  if a.score ~= b.score then return a.score < b.score end
  return comes_before(a.member, b.member)
end

local function insert_in_order(fronts, front)
  local low, high = 1, #fronts + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_before(front, fronts[middle]) then high = middle else low = middle + 1 end
  end
  table.insert(fronts, low, front)
end

-- The next members of one lane, read in small steps.
local function advance(front, step)
  if front.buffer and front.at + 2 <= #front.buffer then
    front.at = front.at + 2
  else
    local from = front.read
    if front.priority then
      front.buffer = redis.call('ZRANGEBYSCORE', front.key, front.priority, front.priority, 'WITHSCORES', 'LIMIT', from, step)
    else
      front.buffer = redis.call('ZRANGE', front.key, from, from + step - 1, 'WITHSCORES')
    end
    front.at = 1
    front.read = from + step
  end
  front.member, front.score = front.buffer[front.at], tonumber(front.buffer[front.at + 1])
  return front.member ~= nil
end

local function add_front(fronts, queue, lane, filter)
  local front = {key = lane_key(queue, lane), read = 0, priority = filter.priority}
  if advance(front, 4) then insert_in_order(fronts, front) end
end
