-- uses: keys, clock, batch, record, config, lanes
-- Limits and pauses, which block lanes. A limit key (`holdup` in the code) is the limit's number, with `:key` if the
-- limit is per key ('7', '7:acme'; '7=acme' if a key may have its own cap). For a pause within the queue it is 'l' +
-- lane or 'n' + name.
local RUNNING_KIND = 1 -- jobs at once; the other kind is a rate
local definitions, rooms, arrivals
local held_now, freed_now -- limit keys that gained, or lost, a holder in this call
at_start[#at_start + 1] = function()
  definitions, rooms, arrivals = clean(definitions), clean(rooms), clean(arrivals)
  held_now, freed_now = clean(held_now), clean(freed_now)
end

-- Return whether the limits have changed since the jobs were matched. enqueue reads the version itself, with other
-- keys.
local function have_limits_changed(since) return (redis.call('GET', P .. 'limits_version') or '0') ~= since end

local function each_limit(limits, visit)
  for holdup in string.gmatch(limits, '[^\2]+') do visit(holdup) end
end

local function limit_number(holdup) return string.match(holdup, '^%d+') end
local function is_pause(holdup) return limit_number(holdup) == nil end

-- A rate is a bucket that starts full: one token per `amount` ms, at most `burst` of them. false: the limit is gone.
local function definition_of(holdup)
  local number = limit_number(holdup)
  if definitions[number] == nil then
    local raw = redis.call('HGET', P .. 'limits', number)
    if raw then
      local kind, amount, burst = struct.unpack('>Bdd', raw)
      definitions[number] = {is_rate = kind ~= RUNNING_KIND, amount = amount, burst = burst}
    else
      definitions[number] = false
    end
  end
  return definitions[number]
end

-- Return a key's own cap, or nil.
local function cap_of(holdup)
  local raw = string.find(holdup, '^%d+=') and redis.call('HGET', P .. 'caps:' .. limit_number(holdup), holdup)
  return raw and struct.unpack('>I4', raw) or nil
end

-- Return when the bucket will be full again. This number is its whole state.
local function full_at(holdup)
  if not arrivals[holdup] then
    arrivals[holdup] = {at = tonumber(redis.call('GET', P .. 'full_at:' .. holdup) or 0)}
  end
  return math.max(now_ms, arrivals[holdup].at)
end

-- A tolerance of 0.001 ms covers rounding errors.
local function tokens_of(holdup, limit)
  return math.floor((now_ms + limit.burst * limit.amount - full_at(holdup) + 0.001) / limit.amount)
end
local function next_token_at(holdup, limit)
  return math.ceil(full_at(holdup) - (limit.burst - 1) * limit.amount - 0.001)
end

local function room_under(queue, holdup)
  if is_pause(holdup) then
    return redis.call('HEXISTS', queue_key('pauses', queue), holdup) == 1 and 0 or math.huge
  end
  local limit = definition_of(holdup)
  if not limit then return math.huge end
  if limit.is_rate then return tokens_of(holdup, limit) end
  return (cap_of(holdup) or limit.amount) - redis.call('ZCARD', P .. 'holders:' .. holdup)
end

-- Return how many more jobs may start now. It is read once, and selected jobs reduce it.
local function room_of(queue, holdup)
  local key = is_pause(holdup) and queue .. '\0' .. holdup or holdup
  if not rooms[key] then rooms[key] = room_under(queue, holdup) end
  return rooms[key], key
end
local function look_at_rooms_again() rooms = clean(rooms) end

-- Return the first of these limits that has no room, or nil.
local function full_limit(queue, limits)
  for holdup in string.gmatch(limits, '[^\2]+') do
    if room_of(queue, holdup) <= 0 then return holdup end
  end
  return nil
end

-- Return the pause of the lane or of its name, or the full limit, that blocks the lane; nil: jobs may be taken.
local function held_back_by(queue, lane)
  if lane == '' then return nil end
  if config_of(queue).pauses > 0 then
    local tenant, name = 'l' .. tenant_of_lane(lane), 'n' .. name_of_lane(lane)
    if room_of(queue, tenant) <= 0 then return tenant end
    if room_of(queue, name) <= 0 then return name end
  end
  return full_limit(queue, limits_of_lane(lane))
end

local function use_room(queue, lane)
  each_limit(limits_of_lane(lane), function(holdup)
    local room, key = room_of(queue, holdup)
    rooms[key] = room - 1
  end)
end

local function hold_limits(r)
  each_limit(links_of(r).limits, function(holdup)
    z_add(P .. 'holders:' .. holdup, r.started_at, r.id)
    held_now[holdup] = true
  end)
end
local function free_limits(r)
  each_limit(links_of(r).limits, function(holdup)
    z_drop(P .. 'holders:' .. holdup, r.id)
    freed_now[holdup] = true
  end)
end

-- Spend a token of each rate for a new lease.
local function spend_tokens(r)
  each_limit(links_of(r).limits, function(holdup)
    local limit = definition_of(holdup)
    if limit and limit.is_rate then
      arrivals[holdup] = {at = full_at(holdup) + limit.amount, is_changed = true}
    end
  end)
end

after_flush[#after_flush + 1] = function()
  for holdup, arrival in pairs(arrivals) do
    if arrival.is_changed then
      arrival.is_changed = false
      redis.call('SET', P .. 'full_at:' .. holdup, string.format('%.17g', arrival.at), 'PX',
        math.ceil(arrival.at - now_ms) + 1)
    end
  end
  for holdup in pairs(held_now) do redis.call('SADD', P .. 'held:' .. limit_number(holdup), holdup) end
  held_now = clean(held_now)
end
