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
