-- Return the counters of queues per minute, for a range of minutes that ends now.
-- arguments: first (minute since 1970), minutes (before the current one, as the earliest first minute); then queues
-- returns:   {now, {per queue {hour, {field, value, ...}, ...}}}; a field is <minute>:<what>; all fields of an hour are
--            returned if more than a few of its minutes are wanted, or if it has few fields
-- refusals:  none
-- flags: no-writes
local clock = require 'clock'
local counters = require 'jobs.counters'
local keys = require 'keys'
local script = require 'script'

local FEW_MINUTES = 2
local FEW_COUNTERS = 150 -- of an hour, which are as cheap to read as those of two minutes

local function read_minutes(key, from, to)
  local fields, found = {}, {}
  for minute = from, to do
    for _, what in ipairs(counters.NAMES) do fields[#fields + 1] = minute .. ':' .. what end
  end
  if #fields == 0 then return found end
  for i, value in ipairs(redis.call('HMGET', key, unpack(fields))) do
    if value then
      found[#found + 1] = fields[i]
      found[#found + 1] = value
    end
  end
  return found
end

local function read_hours(queue, first, last)
  local found = {}
  for hour = math.floor(first / 60), math.floor(last / 60) do
    local key = keys.counters(queue, hour)
    local from, to = math.max(first - hour * 60, 0), math.min(last - hour * 60, 59)
    local reads_minutes = to - from < FEW_MINUTES and redis.call('HLEN', key) > FEW_COUNTERS
    found[#found + 1] = hour
    found[#found + 1] = reads_minutes and read_minutes(key, from, to) or redis.call('HGETALL', key)
  end
  return found
end

return function(arguments, first, minutes)
  local last = math.floor(clock.now_ms / 60000)
  first = math.max(tonumber(first), last - tonumber(minutes))
  return {clock.now_ms, script.map(arguments, 4, 1, function(queue) return read_hours(queue, first, last) end)}
end
