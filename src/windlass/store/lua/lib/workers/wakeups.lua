-- uses: keys, clock, record, filter
-- Wakeups of waiting takers and loops. On the general path every job that becomes takeable passes `became_takeable`, so
-- no operation can forget to wake takers. The fast path finds the waiting takers itself (plain_enqueue.lua).
local BELL_TTL_MS = 120000
local RING_CHECK_MS = 1000 -- a wakeup that was lost with a killed taker is repeated after this
local WAITERS_LOOKED_AT = 1000
local LOOPS_TOLD = 8 -- of those that sleep past an instant
local FILTERS_TRIED = 20000 -- by one call; the recoverer wakes the other takers a second later

local waiters_of
local ring_wanted -- queue -> records that became takeable in this call
local unwilling -- queue -> kind of job -> index up to which no waiter wants it
local parsed_filters, tried
at_start[#at_start + 1] = function()
  waiters_of, ring_wanted, unwilling, parsed_filters, tried = {}, {}, {}, {}, 0
end

local function strike(bell, message)
  local key = P .. 'bell:' .. bell
  redis.call('RPUSH', key, message)
  redis.call('PEXPIRE', key, BELL_TTL_MS)
end

-- Register a wakeup list. Expired registrations are removed with the next one; the key expires if there is none.
local function wait_for_ring(queue, bell, filter, for_ms)
  local key = queue_key('waiters', queue)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('(%.0f', now_ms))
  redis.call('ZADD', key, now_ms + for_ms, bell .. '\1' .. filter)
  redis.call('PEXPIRE', key, math.max(BELL_TTL_MS, for_ms))
end

-- Note that the taker on this wakeup list accepts a direct handoff for this worker (plain_hand.lua).
local function offer_hand(bell, worker, for_ms)
  redis.call('SET', P .. 'hand:' .. bell, worker, 'PX', math.max(BELL_TTL_MS, for_ms))
end

-- Background loops sleep until the earliest instant they know, and are registered for that long. Wake those that would
-- sleep past this instant: several of them, because a process may die with what only it knows.
local function tell_loops(at)
  local key = queue_key('waiters', '')
  local sleeping = redis.call('ZRANGEBYSCORE', key, string.format('(%.0f', at), '+inf', 'LIMIT', 0, LOOPS_TOLD)
  for _, waiter in ipairs(sleeping) do
    redis.call('ZADD', key, at, waiter)
    strike(string.match(waiter, '^[^\1]*'), string.format('L%.0f', math.max(0, at - now_ms)))
  end
end

-- Check later whether a wakeup had an effect. Until then, further wakeups need no check of their own.
local function check_ring(queue)
  local at = now_ms + RING_CHECK_MS
  if redis.call('ZADD', P .. 'timers:ring', 'LT', 'CH', at, queue) == 1 then tell_loops(at) end
end

local function load_waiters(queue)
  local list = waiters_of[queue]
  if not list then
    list = redis.call('ZRANGE', queue_key('waiters', queue), 0, WAITERS_LOOKED_AT - 1, 'WITHSCORES')
    waiters_of[queue] = list
  end
  return list
end

local function waiter_wants(filter, r)
  tried = tried + 1
  if tried > FILTERS_TRIED then return false end
  if not parsed_filters[filter] then parsed_filters[filter] = parse_filter(filter) end
  return wants(parsed_filters[filter], r)
end

-- Remove the waiter at this index from the list. Wake it, unless its registration has expired.
local function ring_waiter(queue, list, i, bell, filter)
  redis.call('ZREM', queue_key('waiters', queue), list[i])
  list[i] = false
  if tonumber(list[i + 1]) < now_ms then return false end
  strike(bell, 'Q' .. queue .. '\1' .. filter)
  if queue ~= '' then check_ring(queue) end
  return true
end

-- Wake the first waiter of the queue that wants this job (nil: any waiter). Returns whether a waiter was woken. Jobs of
-- one name and priority match the same waiters: those that were skipped once are not tried again.
local function ring(queue, r)
  local list, kind = load_waiters(queue), r and r.priority .. (has(r, 'hidden') and '\1h' or '\1') .. r.name
  if not unwilling[queue] then unwilling[queue] = {} end
  local i = r and unwilling[queue][kind] or 1
  local is_rung = false
  while i <= #list and not is_rung do
    if list[i] then
      local bell, filter = string.match(list[i], '^([^\1]*)\1(.*)$')
      if not r or tonumber(list[i + 1]) < now_ms or waiter_wants(filter, r) then
        is_rung = ring_waiter(queue, list, i, bell, filter)
      end
    end
    i = i + 2
  end
  if r then unwilling[queue][kind] = i end
  -- Waiters were not tried because there are too many filters: the queue must be checked again.
  if tried > FILTERS_TRIED then check_ring(queue) end
  return is_rung
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
