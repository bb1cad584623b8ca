-- Return the counters of queues per minute, for a range of minutes that ends now.
-- arguments: ARGV[1] clock offset, [2] first minute (since 1970; 0: that of [3]), [3] minutes before the current one,
--            [4...] queues
-- returns:   {now, {per queue {hour, {field, value, ...}, ...}}}; a field is <minute>:<what>; all fields of an hour are
--            returned if more than a few of its minutes are wanted, or if it has few fields
-- refusals:  none
-- flags: no-writes
local clock = require 'clock'
local counters = require 'jobs.counters'
local keys = require 'keys'

local FEW = 2

local SMALL = 150 -- counters of an hour that are as cheap to read as those of two minutes

local function some_of(key, from, to)
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

return function(arguments)
  local last = math.floor(clock.now_ms / 60000)
  local first = math.max(tonumber(arguments[2]), last - tonumber(arguments[3]))

  local function hours_of(queue)
    local found = {}
    for hour = math.floor(first / 60), math.floor(last / 60) do
      local key = keys.counters(queue, hour)
      local from, to = math.max(first - hour * 60, 0), math.min(last - hour * 60, 59)
      found[#found + 1] = hour
      local is_few = to - from < FEW and redis.call('HLEN', key) > SMALL
      found[#found + 1] = is_few and some_of(key, from, to) or redis.call('HGETALL', key)
    end
    return found
  end

  local answers = {}
  for i = 4, #arguments do answers[i - 3] = hours_of(arguments[i]) end
  return {clock.now_ms, answers}
end
