-- uses: keys, clock, batch, record, config, lanes, limits, wakeups
-- Blocked lanes (parked, in the code): they are listed under the limit key that blocks them, in the order of their
-- heads, and takers skip them. When room appears, a few lanes return to `heads`; if there are many, takers are pointed
-- to the whole line (`room`).
local UNPARKED_AT_ONCE = 4
local LINES_MAX = 50 -- with room, per queue; beyond this, lanes of the oldest line return to `heads`
local PARKED_PER_CALL = 300
local parked_now, opened, rate_due -- lanes blocked in this call; queues with new room; next token per queue
at_start[#at_start + 1] = function() parked_now, opened, rate_due = 0, clean(opened), clean(rate_due) end

local function may_park_more() return parked_now < PARKED_PER_CALL end

-- Remove all marks of a limit key that no longer blocks a lane of the queue.
local function tidy(queue, holdup)
  if redis.call('EXISTS', line_of(queue, holdup)) == 1 then return end
  redis.call('ZREM', queue_key('room', queue), holdup)
  redis.call('ZREM', queue_key('rates', queue), holdup)
  if is_pause(holdup) then return end
  redis.call('SREM', P .. 'parked_in:' .. holdup, queue)
  if redis.call('EXISTS', P .. 'parked_in:' .. holdup, P .. 'holders:' .. holdup) == 0 then
    redis.call('SREM', P .. 'held:' .. limit_number(holdup), holdup)
  end
end

-- A rate opens by itself, at the instant to which the queue's timer is set.
local function await_room(queue, holdup)
  local limit = not is_pause(holdup) and definition_of(holdup)
  if not limit or not limit.is_rate then return end
  local at = next_token_at(holdup, limit)
  redis.call('ZADD', queue_key('rates', queue), at, holdup)
  rate_due[queue] = math.min(rate_due[queue] or math.huge, at)
  if redis.call('ZADD', P .. 'timers:due', 'LT', 'CH', at, queue) == 1 then
    ring(queue, nil)
    tell_loops(at)
  end
end

-- Move a lane's head from one line to another (nil: `heads`). Returns false if the lane is empty.
local function move_head(queue, lane, from, to)
  local member, score = first_of(lane_key(queue, lane))
  if not member then return false end
  local entry = entry_of(queue, lane, member)
  redis.call('ZREM', line_of(queue, from), entry)
  redis.call('ZADD', line_of(queue, to), score, entry)
  if to then
    redis.call('HSET', queue_key('parked_at', queue), lane, to)
    has_parked[queue] = true
  else
    redis.call('HDEL', queue_key('parked_at', queue), lane)
  end
  return true
end

local function park(queue, lane, holdup)
  local before = parked_under(queue, lane)
  if before ~= holdup then
    -- A job that became takeable may have left its lane in the same call.
    if not move_head(queue, lane, before, holdup) then return end
    parked_now = parked_now + 1
    if not is_pause(holdup) then
      redis.call('SADD', P .. 'parked_in:' .. holdup, queue)
      redis.call('SADD', P .. 'held:' .. limit_number(holdup), holdup)
    end
    if before then tidy(queue, before) end
  end
  await_room(queue, holdup)
end

local function unpark(queue, holdup, most)
  for _, entry in ipairs(redis.call('ZRANGE', line_of(queue, holdup), 0, most - 1)) do
    move_head(queue, lane_of_head(entry), holdup, nil)
  end
  tidy(queue, holdup)
end

-- Open a line that has room.
local function open_line(queue, holdup)
  local size = redis.call('ZCARD', line_of(queue, holdup))
  if size > UNPARKED_AT_ONCE then
    redis.call('ZADD', queue_key('room', queue), now_ms, holdup)
  else
    unpark(queue, holdup, size)
  end
  if size > 0 then opened[queue] = true end
end

local function open_lines(holdup)
  if room_of('', holdup) <= 0 then return end
  for _, queue in ipairs(redis.call('SMEMBERS', P .. 'parked_in:' .. holdup)) do open_line(queue, holdup) end
end

-- Open the lines of rates whose next token has come.
local function open_rates(queue)
  local key = queue_key('rates', queue)
  for _, holdup in ipairs(redis.call('ZRANGEBYSCORE', key, '-inf', now_ms, 'LIMIT', 0, 100)) do
    redis.call('ZREM', key, holdup)
    look_at_rooms_again()
    if room_of(queue, holdup) > 0 then open_line(queue, holdup) else await_room(queue, holdup) end
  end
end

-- Return the lines that a taker scans: `heads`, and the lines of blocked lanes that have room.
local function open_lines_of(queue)
  local lines, key = {queue_key('heads', queue)}, queue_key('room', queue)
  local marked = redis.call('ZRANGE', key, 0, LINES_MAX)
  while #marked > LINES_MAX and may_park_more() do
    unpark(queue, marked[1], UNPARKED_AT_ONCE)
    parked_now = parked_now + UNPARKED_AT_ONCE
    marked = redis.call('ZRANGE', key, 0, LINES_MAX)
  end
  for _, holdup in ipairs(marked) do
    if room_of(queue, holdup) > 0 then
      lines[#lines + 1] = line_of(queue, holdup)
    else
      redis.call('ZREM', key, holdup)
      await_room(queue, holdup)
    end
  end
  return lines
end

after_flush[#after_flush + 1] = function()
  look_at_rooms_again()
  if next(freed_now) == nil and next(emptied) == nil then return end
  local freed, gone = freed_now, emptied
  freed_now, emptied = {}, {}
  for _, lane in ipairs(gone) do tidy(lane.queue, lane.holdup) end
  for holdup in pairs(freed) do
    open_lines(holdup)
    if redis.call('EXISTS', P .. 'parked_in:' .. holdup, P .. 'holders:' .. holdup) == 0 then
      redis.call('SREM', P .. 'held:' .. limit_number(holdup), holdup)
    end
  end
end
