-- Numbers of jobs, used by dialects. A job created under a number has it in its id. Another job gets a number when it
-- is first shown; that mapping is stored in both directions and removed with the job. Numbers are not reused.
local record = require 'jobs.record'
local keys = require 'keys'

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
local function assign(job)
  local number = string.format('%.0f', redis.call('INCR', keys.number()))
  redis.call('HSET', keys.numbers(), job.id, number)
  redis.call('HSET', keys.numbered(), number, job.id)
  record.mark(job, 'has_number')
  return number
end

-- Return the number of a job that was not created under one. A job without a number gets one; the caller must flush.
function numbers.of(job)
  if record.has(job, 'has_number') then return redis.call('HGET', keys.numbers(), job.id) end
  local number = assign(job)
  record.save(job)
  return number
end

function numbers.forget(id)
  local number = redis.call('HGET', keys.numbers(), id)
  if not number then return end
  redis.call('HDEL', keys.numbers(), id)
  redis.call('HDEL', keys.numbered(), number)
end

-- An enqueue can reserve the numbers of its jobs in the same step. If its answer is lost, the call is repeated and must
-- get the same numbers. So it brings a request id: a name that one call at a time uses, and a number that grows with
-- each call. A smaller number than the last one belongs to a call that was answered long ago: its message was delayed
-- in transit.
local REQUEST_TTL_MS = 3600000

-- Return key and number of the request id in the first two arguments of an enqueue; nil if it brings none.
function numbers.read_request(first, name)
  if string.sub(first, 1, 1) ~= 'N' then return nil end
  return keys.request_id(name), tonumber(string.sub(first, 2))
end

-- Return the number of the last request under a name, and the first number that it reserved.
function numbers.read_reserved(content)
  local request, first = string.match(content or '', '^(%d+):(%d+)$')
  return tonumber(request or 0), tonumber(first)
end

-- Reserve numbers for the jobs of a request. Returns the first number, and whether it was reserved by this call.
function numbers.reserve_once(key, request, size)
  local last, first = numbers.read_reserved(redis.call('GET', key))
  if last > request then error('a call that was answered before') end
  if last == request then return first, false end
  first = redis.call('INCRBY', keys.number(), size) - size + 1
  redis.call('SET', key, string.format('%.0f:%.0f', request, first), 'PX', REQUEST_TTL_MS)
  return first, true
end

local NUMBERED_ID = '>c8BI7' -- first bytes of the caller's placeholder, variant bit, number
function numbers.numbered_id(placeholder, number) return struct.pack(NUMBERED_ID, placeholder, 128, number) end

return numbers
