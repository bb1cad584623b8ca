-- uses: keys, clock, batch, record, config, lanes, limits, blocked_lanes, wakeups, findings
-- Checks of lanes, their heads, and the limits and pauses that block them.

local function check_timer(kind, queue, index)
  local first = redis.call('ZRANGE', queue_key(index, queue), 0, 0, 'WITHSCORES')[2]
  if not first or tonumber(first) == math.huge then return end
  local at = redis.call('ZSCORE', P .. 'timers:' .. kind, queue)
  if at and tonumber(at) <= tonumber(first) then return end
  find('timer_late', queue_example(queue), function()
    redis.call('ZADD', P .. 'timers:' .. kind, first, queue)
    ring(queue, nil)
    ring('', nil)
  end)
end

local function split_name(name) return string.match(name, '^([^%z]*)%z(.*)$') end

local function is_head(queue, lane, line, entry, score)
  local member, first = first_of(lane_key(queue, lane))
  if not member or parked_under(queue, lane) ~= line then return false end
  return entry == entry_of(queue, lane, member) and tonumber(first) == tonumber(score)
end

local function check_lane(name)
  local queue, lane = split_name(name)
  local member, score = first_of(lane_key(queue, lane))
  if not member then return end
  local line, entry = line_of(queue, parked_under(queue, lane)), entry_of(queue, lane, member)
  local found, names = redis.call('ZSCORE', line, entry), queue_key('names', queue)
  local name_entry = name_of_lane(lane) .. '\0' .. lane
  local is_named = redis.call('ZSCORE', names, name_entry) == '0'
  if found and tonumber(found) == tonumber(score) and is_named then return end
  find('lane_not_listed', lane_example(queue, lane), function()
    redis.call('ZADD', line, score, entry)
    redis.call('ZADD', names, 0, name_entry)
    opened[queue] = true
  end)
end

-- Check an entry of `heads` (holdup nil) or of a line of blocked lanes.
local function check_head(queue, holdup, entry, score)
  local lane = lane_of_head(entry)
  if is_head(queue, lane, holdup, entry, score) then return end
  find('ghost', lane_example(queue, lane), function()
    redis.call('ZREM', line_of(queue, holdup), entry)
    if holdup then tidy(queue, holdup) end
  end)
end

local function check_lane_name(queue, entry)
  local name, lane = split_name(entry)
  if lane and redis.call('EXISTS', lane_key(queue, lane)) == 1 and name_of_lane(lane) == name then return end
  find('ghost', lane_example(queue, lane or entry), function() redis.call('ZREM', queue_key('names', queue), entry) end)
end

local function check_parked_at(queue, lane, holdup)
  if redis.call('EXISTS', lane_key(queue, lane)) == 1 then return end
  find('ghost', lane_example(queue, lane), function()
    redis.call('HDEL', queue_key('parked_at', queue), lane)
    has_parked[queue] = nil
    tidy(queue, holdup)
  end)
end

local function check_mark(index, queue, holdup)
  if redis.call('EXISTS', line_of(queue, holdup)) == 1 then return end
  find('ghost', key_example(index .. ':' .. queue), function() tidy(queue, holdup) end)
end

-- Return whether a taker or a timer will look at this line when it has room.
local function is_line_watched(queue, holdup)
  if redis.call('ZSCORE', queue_key('room', queue), holdup) then return true end
  local opens_at = tonumber(redis.call('ZSCORE', queue_key('rates', queue), holdup) or math.huge)
  if opens_at <= now_ms then return true end
  if room_of(queue, holdup) > 0 then return false end
  local limit = not is_pause(holdup) and definition_of(holdup)
  return not limit or not limit.is_rate or opens_at < math.huge
end

local function open_again(queue, holdup)
  look_at_rooms_again()
  if room_of(queue, holdup) > 0 then open_line(queue, holdup) else await_room(queue, holdup) end
end

local function is_line_known(queue, holdup)
  if is_pause(holdup) then return true end
  return redis.call('SISMEMBER', P .. 'parked_in:' .. holdup, queue) == 1
    and redis.call('SISMEMBER', P .. 'held:' .. limit_number(holdup), holdup) == 1
end

local function check_line(name)
  local queue, holdup = split_name(name)
  if not is_line_known(queue, holdup) then
    find('lane_not_listed', lane_example(queue, holdup), function()
      redis.call('SADD', P .. 'parked_in:' .. holdup, queue)
      redis.call('SADD', P .. 'held:' .. limit_number(holdup), holdup)
    end)
  end
  look_at_rooms_again()
  -- Limits that have just changed release their lanes in steps.
  if redis.call('EXISTS', P .. 'rematch') == 1 or is_line_watched(queue, holdup) then return end
  find('room_forgotten', queue_example(queue), function() open_again(queue, holdup) end)
end

local function check_parked_in(holdup, queue)
  if redis.call('EXISTS', line_of(queue, holdup)) == 1 then return end
  find('ghost', queue_example(queue), function() tidy(queue, holdup) end)
end

local function check_held(number, holdup)
  if redis.call('EXISTS', P .. 'parked_in:' .. holdup, P .. 'holders:' .. holdup) > 0 then return end
  find('ghost', key_example('held:' .. number), function() redis.call('SREM', P .. 'held:' .. number, holdup) end)
end

local function check_holders(holdup)
  if redis.call('SISMEMBER', P .. 'held:' .. limit_number(holdup), holdup) == 1 then return end
  find('limit_not_listed', key_example('holders:' .. holdup), function()
    redis.call('SADD', P .. 'held:' .. limit_number(holdup), holdup)
  end)
end

-- Free the place in a limit that a job no longer holds.
local function free_holder(holdup, id)
  z_drop(P .. 'holders:' .. holdup, id)
  freed_now[holdup] = true
end

local function check_pauses(queue)
  local paused = redis.call('HLEN', queue_key('pauses', queue))
  if tonumber(redis.call('HGET', queue_key('q', queue), 'pauses') or 0) == paused then return end
  find('pauses_miscounted', queue_example(queue), function() redis.call('HSET', queue_key('q', queue), 'pauses', paused) end)
end
