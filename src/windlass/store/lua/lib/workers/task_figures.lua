-- Figures of tasks: how often the workers of the SDK finished and failed a task, and how long it ran. Workers report
-- sums. A minute of a task is one string: for each counter its index (1 byte) and its count (4 bytes).
local clock = require 'clock'
local keys = require 'keys'

local task_figures = {}

local TTL_S = 172800 -- as for counters.lua
local HOURS = TTL_S / 3600
local MINUTE_MS = 60000
local COUNT_MAX = 4294967295

-- Return the key and the field of this minute.
local function place_of(queue, name)
  local minute = math.floor(clock.now_ms / MINUTE_MS)
  return keys.task_figures(queue, name, math.floor(minute / 60)), tostring(minute % 60)
end

local function add_counts(sums, packed)
  for at = 1, #packed - 4, 5 do
    local index, count = struct.unpack('>BI4', packed, at)
    sums[index] = math.min((sums[index] or 0) + count, COUNT_MAX)
  end
end

-- Return the sum of two packed lists of counters.
local function add_packed(first, second)
  local sums, parts = {}, {}
  add_counts(sums, first)
  add_counts(sums, second)
  for index, count in pairs(sums) do parts[#parts + 1] = struct.pack('>BI4', index, count) end
  return table.concat(parts)
end

-- Remove tasks whose figures have expired. Returns how many others a partition may still list.
function task_figures.free_places(most)
  redis.call('ZREMRANGEBYSCORE', keys.tasks(), '-inf', clock.now_ms - TTL_S * 1000)
  return most - redis.call('ZCARD', keys.tasks())
end

-- Add the counters of a task to this minute. Returns nil if the task is new and there is no place for it, else the
-- number of places that it took.
function task_figures.add(queue, name, packed, places)
  local task = queue .. '\0' .. name
  local is_known = redis.call('ZSCORE', keys.tasks(), task)
  if not is_known and places <= 0 then return nil end
  redis.call('ZADD', keys.tasks(), clock.now_ms, task)
  redis.call('EXPIRE', keys.tasks(), TTL_S)
  local key, minute = place_of(queue, name)
  redis.call('HSET', key, minute, add_packed(redis.call('HGET', key, minute) or '', packed))
  redis.call('EXPIRE', key, TTL_S)
  return is_known and 0 or 1
end

-- Remove the figures of all tasks of a queue.
function task_figures.forget_queue(queue)
  local last, start = math.floor(clock.now_ms / 3600000), queue .. '\0'
  for _, task in ipairs(redis.call('ZRANGE', keys.tasks(), 0, -1)) do
    if string.sub(task, 1, #start) == start then
      local hours = {}
      for back = 0, HOURS do
        hours[#hours + 1] = keys.task_figures(queue, string.sub(task, #start + 1), last - back)
      end
      redis.call('DEL', unpack(hours))
      redis.call('ZREM', keys.tasks(), task)
    end
  end
end

return task_figures
