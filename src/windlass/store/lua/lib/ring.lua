-- uses: keys, clock, filter
-- Wakes those who wait. All paths that make work takeable come through here, so none can forget it.
local BELL_TTL_MS = 120000
local RING_CHECK_MS = 1000 -- a ring lost with a killed taker is repeated after this
local WAITERS_LOOKED_AT = 100
local RINGS_PER_CALL = 16

local waiters_of
local ring_wanted -- queue -> list of records made takeable in this call
at_start[#at_start + 1] = function() waiters_of, ring_wanted = {}, {} end

local function strike(bell, message)
  local key = P .. 'bell:' .. bell
  redis.call('RPUSH', key, message)
  redis.call('PEXPIRE', key, BELL_TTL_MS)
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

local function became_takeable(r)
  local list = ring_wanted[r.queue]
  if not list then
    list = {}
    ring_wanted[r.queue] = list
  end
  if #list < RINGS_PER_CALL then table.insert(list, r) end
end

-- After the flush of the last phase: the jobs are in place when somebody is told of them.
local function ring_all()
  for queue, list in pairs(ring_wanted) do
    for _, r in ipairs(list) do
      if #load_waiters(queue) == 0 then break end
      ring(queue, r)
    end
  end
  ring_wanted = {}
end
