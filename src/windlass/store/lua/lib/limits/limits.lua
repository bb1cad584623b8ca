-- Limits and pauses, which block lanes. A limit key is the limit's number, with `:key` if the limit is per key ('7',
-- '7:acme'; '7=acme' if a key may have its own cap). For a pause within the queue it is 'l' + lane or 'n' + name.
local batch = require 'batch'
local clock = require 'clock'
local record = require 'jobs.record'
local keys = require 'keys'
local configuration = require 'queues.configuration'
local lanes = require 'queues.lanes'
local script = require 'script'

local limits = {}

local RUNNING_KIND = 1 -- jobs at once; the other kind is a rate
local definitions, rooms, buckets
-- held_now, freed_now: limit keys that gained, or lost, a holder in this call.
script.on_start(function()
  definitions, rooms, buckets = script.clean(definitions), script.clean(rooms), script.clean(buckets)
  limits.held_now, limits.freed_now = script.clean(limits.held_now), script.clean(limits.freed_now)
end)

-- Return whether the limits have changed since the jobs were matched. enqueue reads the version itself, with other
-- keys.
function limits.have_changed(since) return (redis.call('GET', keys.limits_version()) or '0') ~= since end

function limits.each(list, visit)
  for limit_key in string.gmatch(list, '[^\2]+') do visit(limit_key) end
end

function limits.number_of(limit_key) return string.match(limit_key, '^%d+') end
function limits.is_pause(limit_key) return limits.number_of(limit_key) == nil end

-- A rate is a bucket that starts full: one token per `amount` ms, at most `burst` of them. false: the limit is gone.
function limits.definition_of(limit_key)
  local number = limits.number_of(limit_key)
  if definitions[number] == nil then
    local raw = redis.call('HGET', keys.limits(), number)
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
function limits.cap_of(limit_key)
  local raw = string.find(limit_key, '^%d+=') and redis.call('HGET', keys.caps(limits.number_of(limit_key)), limit_key)
  return raw and struct.unpack('>I4', raw) or nil
end

-- Return when the bucket will be full again. This number is its whole state.
local function full_at(limit_key)
  if not buckets[limit_key] then
    buckets[limit_key] = {full_at = tonumber(redis.call('GET', keys.full_at(limit_key)) or 0)}
  end
  return math.max(clock.now_ms, buckets[limit_key].full_at)
end

-- A tolerance of 0.001 ms covers rounding errors.
local function tokens_of(limit_key, limit)
  return math.floor((clock.now_ms + limit.burst * limit.amount - full_at(limit_key) + 0.001) / limit.amount)
end
function limits.next_token_at(limit_key, limit)
  return math.ceil(full_at(limit_key) - (limit.burst - 1) * limit.amount - 0.001)
end

local function room_under(queue, limit_key)
  if limits.is_pause(limit_key) then
    return redis.call('HEXISTS', keys.pauses(queue), limit_key) == 1 and 0 or math.huge
  end
  local limit = limits.definition_of(limit_key)
  if not limit then return math.huge end
  if limit.is_rate then return tokens_of(limit_key, limit) end
  return (limits.cap_of(limit_key) or limit.amount) - redis.call('ZCARD', keys.holders(limit_key))
end

-- Return how many more jobs may start now. It is read once, and selected jobs reduce it.
function limits.room_of(queue, limit_key)
  local key = limits.is_pause(limit_key) and queue .. '\0' .. limit_key or limit_key
  if not rooms[key] then rooms[key] = room_under(queue, limit_key) end
  return rooms[key], key
end
function limits.forget_rooms() rooms = script.clean(rooms) end

-- Return the first of these limits that has no room, or nil.
function limits.first_full(queue, list)
  for limit_key in string.gmatch(list, '[^\2]+') do
    if limits.room_of(queue, limit_key) <= 0 then return limit_key end
  end
  return nil
end

-- Return the pause of the lane or of its name, or the full limit, that blocks the lane; nil: jobs may be taken.
function limits.blocker_of(queue, lane)
  if lane == '' then return nil end
  if configuration.of(queue).pauses > 0 then
    local tenant, name = 'l' .. lanes.tenant_in(lane), 'n' .. lanes.name_in(lane)
    if limits.room_of(queue, tenant) <= 0 then return tenant end
    if limits.room_of(queue, name) <= 0 then return name end
  end
  return limits.first_full(queue, lanes.limits_in(lane))
end

function limits.use_room(queue, lane)
  limits.each(lanes.limits_in(lane), function(limit_key)
    local room, key = limits.room_of(queue, limit_key)
    rooms[key] = room - 1
  end)
end

function limits.hold(job)
  limits.each(record.links_of(job).limits, function(limit_key)
    batch.z_add(keys.holders(limit_key), job.started_at, job.id)
    limits.held_now[limit_key] = true
  end)
end
function limits.free(job)
  limits.each(record.links_of(job).limits, function(limit_key)
    batch.z_remove(keys.holders(limit_key), job.id)
    limits.freed_now[limit_key] = true
  end)
end

-- Spend a token of each rate for a new lease.
function limits.spend_tokens(job)
  limits.each(record.links_of(job).limits, function(limit_key)
    local limit = limits.definition_of(limit_key)
    if limit and limit.is_rate then
      buckets[limit_key] = {full_at = full_at(limit_key) + limit.amount, is_changed = true}
    end
  end)
end

batch.after_flush(function()
  for limit_key, bucket in pairs(buckets) do
    if bucket.is_changed then
      bucket.is_changed = false
      redis.call('SET', keys.full_at(limit_key), string.format('%.17g', bucket.full_at), 'PX',
        math.ceil(bucket.full_at - clock.now_ms) + 1)
    end
  end
  for limit_key in pairs(limits.held_now) do
    redis.call('SADD', keys.limit_keys(limits.number_of(limit_key)), limit_key)
  end
  limits.held_now = script.clean(limits.held_now)
end)

return limits
