-- uses: keys, batch, record
-- Numbers of jobs, used by dialects. A job created under a number has it in its id. Another job gets a number when it
-- is first shown; that mapping is stored in both directions and removed with the job. Numbers are not reused.

-- Return the number that an id contains (core/ids.py), or nil.
local function number_in(id)
  if string.sub(id, 1, 6) ~= 'number' or bit.rshift(string.byte(id, 7), 4) ~= 8 then return nil end
  local high, low = struct.unpack('>I4I4', id, 9)
  return bit.band(high, 0x3fffffff) * 4294967296 + low
end

local function raise_number(number)
  if number > tonumber(redis.call('GET', P .. 'number') or 0) then
    redis.call('SET', P .. 'number', string.format('%.0f', number))
  end
end

-- The caller must save the record afterwards.
local function give_number(r)
  local number = string.format('%.0f', redis.call('INCR', P .. 'number'))
  redis.call('HSET', P .. 'numbers', r.id, number)
  redis.call('HSET', P .. 'numbered', number, r.id)
  mark(r, 'has_number')
  return number
end

local function forget_number(id)
  local number = redis.call('HGET', P .. 'numbers', id)
  if not number then return end
  redis.call('HDEL', P .. 'numbers', id)
  redis.call('HDEL', P .. 'numbered', number)
end

-- An enqueue can reserve the numbers of its jobs in the same step. If its answer is lost, the call is repeated and must
-- get the same numbers. So it brings a request id (`slip` in the code): a name that one call at a time uses, and a
-- number that grows with each call. A smaller number than the last one belongs to a call that was answered long ago:
-- its message was delayed in transit.
local SLIP_MS = 3600000
local function brings_slip() return string.sub(ARGV[2], 1, 1) == 'N' end
local function slip_of_call() return P .. 'slip:' .. ARGV[3], tonumber(string.sub(ARGV[2], 2)) end
local function last_drawn(slip)
  local of_call, first = string.match(slip or '', '^(%d+):(%d+)$')
  return tonumber(of_call or 0), tonumber(first)
end
local NUMBERED_ID = '>c8BI7' -- first bytes of the caller's placeholder, variant bit, number
local function numbered_id(placeholder, number) return struct.pack(NUMBERED_ID, placeholder, 128, number) end

-- Return the first number, and whether it was reserved by this call.
local function draw_once(key, of_call, size)
  local known, first = last_drawn(redis.call('GET', key))
  if known > of_call then error('a call that was answered before') end
  if known == of_call then return first, false end
  first = redis.call('INCRBY', P .. 'number', size) - size + 1
  redis.call('SET', key, string.format('%.0f:%.0f', of_call, first), 'PX', SLIP_MS)
  return first, true
end

-- Remove the request id from the arguments, and put the numbers into the ids. Jobs that were matched against old limits
-- get no numbers, because they will be sent again. Returns true if the numbers are new: then none of the jobs can have
-- ended, whatever ids other callers use.
local function bring_numbers()
  if not brings_slip() then return false end
  local key, of_call = slip_of_call()
  table.remove(ARGV, 2)
  table.remove(ARGV, 2)
  if (redis.call('GET', P .. 'limits_version') or '0') ~= ARGV[2] then return false end
  local size = (#ARGV - 2) / 2
  local first, is_new = draw_once(key, of_call, size)
  for i = 1, size do
    local entry = ARGV[2 * i + 1]
    ARGV[2 * i + 1] = numbered_id(entry, first + i - 1) .. string.sub(entry, 17)
  end
  return is_new
end
