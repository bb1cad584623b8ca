-- uses: keys, clock, filter
-- Wakes those who wait. All paths that make work takeable come through here, so none can forget it.
local BELL_TTL_MS = 120000
local RING_CHECK_MS = 1000 -- a ring lost with a killed taker is repeated after this
local WAITERS_LOOKED_AT = 1000

local waiters_of
local ring_wanted -- queue -> list of records made takeable in this call
at_start[#at_start + 1] = function() waiters_of, ring_wanted = {}, {} end

local function strike(bell, message)
  local key = P .. 'bell:' .. bell
  redis.call('RPUSH', key, message)
  redis.call('PEXPIRE', key, BELL_TTL_MS)
end

-- Registers a bell. What is over goes with the next registration; the key goes by itself when no more come.
local function wait_for_ring(queue, bell, filter, for_ms)
  local key = queue_key('waiters', queue)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('(%.0f', now_ms))
  redis.call('ZADD', key, now_ms + for_ms, bell .. '\1' .. filter)
  redis.call('PEXPIRE', key, math.max(BELL_TTL_MS, for_ms))
end

local function load_waiters(queue)
  local list = waiters_of[queue]
  if not list then
    list = redis.call('ZRANGE', queue_key('waiters', queue), 0, WAITERS_LOOKED_AT - 1, 'WITHSCORES')
    waiters_of[queue] = list
  end
  return list
end

-- Rings the first waiter of the queue that wants this job (nil: any waiter). Says whether somebody was rung.
local function ring(queue, r)
  local list = load_waiters(queue)
  for i = 1, #list, 2 do
    local member = list[i]
    if member then
      local bell, filter = string.match(member, '^([^\1]*)\1(.*)$')
      local is_over = tonumber(list[i + 1]) < now_ms
      if is_over or not r or wants(parse_filter(filter), r) then
        list[i] = false
        redis.call('ZREM', queue_key('waiters', queue), member)
        if not is_over then
          strike(bell, 'Q' .. queue .. '\1' .. filter)
          redis.call('ZADD', P .. 'timers:ring', 'LT', now_ms + RING_CHECK_MS, queue)
          return true
        end
      end
    end
  end
  return false
end

local function is_deserted(queue)
  local list = load_waiters(queue)
  for i = 1, #list, 2 do
    if list[i] then return false end
  end
  return true
end

local function became_takeable(r)
  if #load_waiters(r.queue) == 0 then return end
  local list = ring_wanted[r.queue]
  if not list then
    list = {}
    ring_wanted[r.queue] = list
  end
  list[#list + 1] = r
end
