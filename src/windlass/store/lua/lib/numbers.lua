-- uses: keys, batch, record
-- Numbers that jobs are known by in a dialect. A job made under a number has it in its id; another gets one when it is
-- first shown, kept both ways and removed with it. A number is never given out twice.

-- The number that an id is made of, as in core/ids.py; or nil.
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

-- The record must be saved afterwards.
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

-- Jobs that come in without numbers get theirs in the same step. Such a call may be repeated when its answer was lost, and
-- must draw no others then: it brings a slip, which its caller uses for one call after the other, each with a higher
-- number. An earlier one than the last has been answered long ago: it is a message that was lost on its way until now.
local SLIP_MS = 3600000
local function brings_slip() return string.sub(ARGV[2], 1, 1) == 'N' end
local function slip_of_call() return P .. 'slip:' .. ARGV[3], tonumber(string.sub(ARGV[2], 2)) end
local function last_drawn(slip)
  local of_call, first = string.match(slip or '', '^(%d+):(%d+)$')
  return tonumber(of_call or 0), tonumber(first)
end
local NUMBERED_ID = '>c8BI7' -- what the caller's placeholder begins with, a bit of the variant, the number
local function numbered_id(placeholder, number) return struct.pack(NUMBERED_ID, placeholder, 128, number) end

-- The first number, and whether it has just been drawn.
local function draw_once(key, of_call, size)
  local known, first = last_drawn(redis.call('GET', key))
  if known > of_call then error('a call that was answered before') end
  if known == of_call then return first, false end
  first = redis.call('INCRBY', P .. 'number', size) - size + 1
  redis.call('SET', key, string.format('%.0f:%.0f', of_call, first), 'PX', SLIP_MS)
  return first, true
end

-- Leaves the call as one without a slip. Jobs that were matched against old limits will come again: they get no numbers.
-- True: they got new ones, so that none of them can have ended, whatever ids others make.
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
