-- Numbers of jobs, used by dialects. A job created under a number has it in its id. Another job gets a number when it
-- is first shown; that mapping is stored in both directions and removed with the job. Numbers are not reused.
local record = require 'jobs.record'
local keys = require 'keys'
local script = require 'script'

local numbers = {}

-- Return the number that an id contains (core/ids.py), or nil.
function numbers.number_in(id)
  if string.sub(id, 1, 6) ~= 'number' or bit.rshift(string.byte(id, 7), 4) ~= 8 then return nil end
  local high, low = struct.unpack('>I4I4', id, 9)
  return bit.band(high, 0x3fffffff) * 4294967296 + low
end

function numbers.raise(number)
  if number > tonumber(redis.call('GET', keys.number()) or 0) then
    redis.call('SET', keys.number(), string.format('%.0f', number))
  end
end

-- The caller must save the record afterwards.
function numbers.assign(job)
  local number = string.format('%.0f', redis.call('INCR', keys.number()))
  redis.call('HSET', keys.numbers(), job.id, number)
  redis.call('HSET', keys.numbered(), number, job.id)
  record.mark(job, 'has_number')
  return number
end

function numbers.forget(id)
  local number = redis.call('HGET', keys.numbers(), id)
  if not number then return end
  redis.call('HDEL', keys.numbers(), id)
  redis.call('HDEL', keys.numbered(), number)
end

-- An enqueue can reserve the numbers of its jobs in the same step. If its answer is lost, the call is repeated and must
-- get the same numbers. So it brings a request id: 'N' + a number that grows with each call, and a name that one call
-- at a time uses. A smaller number than the last one belongs to a call that was answered long ago: its message was
-- delayed in transit.
local REQUEST_TTL_MS = 3600000
local REQUEST_AT = 2 -- position of the request id in the arguments
function numbers.has_request_id() return string.sub(script.arguments[REQUEST_AT], 1, 1) == 'N' end

-- Return the key of the request id, and the number of the call.
function numbers.request_id()
  local call, name = unpack(script.arguments, REQUEST_AT, REQUEST_AT + 1)
  return keys.request_id(name), tonumber(string.sub(call, 2))
end

-- Return the number of the last call, and the first number that it reserved.
function numbers.last_reserved(request)
  local of_call, first = string.match(request or '', '^(%d+):(%d+)$')
  return tonumber(of_call or 0), tonumber(first)
end
local NUMBERED_ID = '>c8BI7' -- first bytes of the caller's placeholder, variant bit, number
function numbers.numbered_id(placeholder, number) return struct.pack(NUMBERED_ID, placeholder, 128, number) end

-- Return the first number, and whether it was reserved by this call.
function numbers.reserve_once(key, of_call, size)
  local known, first = numbers.last_reserved(redis.call('GET', key))
  if known > of_call then error('a call that was answered before') end
  if known == of_call then return first, false end
  first = redis.call('INCRBY', keys.number(), size) - size + 1
  redis.call('SET', key, string.format('%.0f:%.0f', of_call, first), 'PX', REQUEST_TTL_MS)
  return first, true
end

-- Remove the request id from the arguments, and put the numbers into the ids. Jobs that were matched against old limits
-- get no numbers, because they will be sent again. Returns true if the numbers are new: then none of the jobs can have
-- ended, whatever ids other callers use.
function numbers.put_into_ids()
  if not numbers.has_request_id() then return false end
  local key, of_call = numbers.request_id()
  local arguments = script.arguments
  table.remove(arguments, REQUEST_AT)
  table.remove(arguments, REQUEST_AT)
  local version = unpack(arguments, REQUEST_AT, REQUEST_AT)
  if (redis.call('GET', keys.limits_version()) or '0') ~= version then return false end
  local size = (#arguments - 2) / 2
  local first, is_new = numbers.reserve_once(key, of_call, size)
  for i = 1, size do
    local entry = arguments[2 * i + 1]
    arguments[2 * i + 1] = numbers.numbered_id(entry, first + i - 1) .. string.sub(entry, 17)
  end
  return is_new
end

return numbers
