-- Wakeups of waiting takers and loops. On the general path every job that becomes takeable passes `note_takeable`, so
-- no operation can forget to wake takers. The fast path of enqueue finds the waiting takers itself.
local clock = require 'clock'
local record = require 'jobs.record'
local keys = require 'keys'
local script = require 'script'
local taker_filter = require 'workers.taker_filter'

local wakeups = {}

local LIST_TTL_MS = 120000
local CHECK_AFTER_MS = 1000 -- a wakeup that was lost with a killed taker is repeated after this
wakeups.WAITERS_READ = 1000
local LOOPS_WOKEN = 8 -- of those that sleep past an instant
local FILTERS_TRIED = 20000 -- by one call; the recoverer wakes the other takers a second later

local waiters_of
local unwilling -- queue -> kind of job -> index up to which no waiter wants it
local parsed_filters, tried
script.on_start(function()
  waiters_of, wakeups.wanted, unwilling, parsed_filters, tried = {}, {}, {}, {}, 0
end)

function wakeups.send(wakeup_list, message)
  local key = keys.wakeup_list(wakeup_list)
  redis.call('RPUSH', key, message)
  redis.call('PEXPIRE', key, LIST_TTL_MS)
end

-- Register a wakeup list. Expired registrations are removed with the next one; the key expires if there is none.
function wakeups.register(queue, wakeup_list, filter, for_ms)
  local key = keys.waiters(queue)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('(%.0f', clock.now_ms))
  redis.call('ZADD', key, clock.now_ms + for_ms, wakeup_list .. '\1' .. filter)
  redis.call('PEXPIRE', key, math.max(LIST_TTL_MS, for_ms))
end

-- Note that the taker on this wakeup list accepts a direct handoff for this worker (handoff.lua).
local function offer_handoff(wakeup_list, worker, for_ms)
  redis.call('SET', keys.handoff(wakeup_list), worker, 'PX', math.max(LIST_TTL_MS, for_ms))
end

-- Register a taker that found nothing, if it has a wakeup list, in the queues from `first` on. `worker` is set if it
-- accepts a direct handoff.
function wakeups.register_taker(queues, first, wakeup_list, filter, for_ms, worker)
  if wakeup_list == '' then return end
  for i = first, #queues do wakeups.register(queues[i], wakeup_list, filter, for_ms) end
  if worker then offer_handoff(wakeup_list, worker, for_ms) end
end

-- Background loops sleep until the earliest instant they know, and are registered for that long. Wake those that would
-- sleep past this instant: several of them, because a process may die with what only it knows.
function wakeups.wake_loops(at)
  local key = keys.waiters('')
  local sleeping = redis.call('ZRANGEBYSCORE', key, string.format('(%.0f', at), '+inf', 'LIMIT', 0, LOOPS_WOKEN)
  for _, waiter in ipairs(sleeping) do
    redis.call('ZADD', key, at, waiter)
    wakeups.send(string.match(waiter, '^[^\1]*'), string.format('L%.0f', math.max(0, at - clock.now_ms)))
  end
end

-- Check later whether a wakeup had an effect. Until then, further wakeups need no check of their own.
local function check_later(queue)
  local at = clock.now_ms + CHECK_AFTER_MS
  if redis.call('ZADD', keys.timer('ring'), 'LT', 'CH', at, queue) == 1 then wakeups.wake_loops(at) end
end

function wakeups.load_waiters(queue)
  local list = waiters_of[queue]
  if not list then
    list = redis.call('ZRANGE', keys.waiters(queue), 0, wakeups.WAITERS_READ - 1, 'WITHSCORES')
    waiters_of[queue] = list
  end
  return list
end

local function waiter_wants(filter, job)
  tried = tried + 1
  if tried > FILTERS_TRIED then return false end
  if not parsed_filters[filter] then parsed_filters[filter] = taker_filter.parse(filter) end
  return taker_filter.matches(parsed_filters[filter], job)
end

-- Send a wakeup for a queue, and have it checked later: its taker may be dead.
function wakeups.wake_taker(queue, wakeup_list, filter)
  wakeups.send(wakeup_list, 'Q' .. queue .. '\1' .. filter)
  if queue ~= '' then check_later(queue) end
end

-- Remove the waiter at this index from the list. Wake it, unless its registration has expired.
local function ring_waiter(queue, list, i, wakeup_list, filter)
  redis.call('ZREM', keys.waiters(queue), list[i])
  list[i] = false
  if tonumber(list[i + 1]) < clock.now_ms then return false end
  wakeups.wake_taker(queue, wakeup_list, filter)
  return true
end

-- Wake the first waiter of the queue that wants this job (nil: any waiter). Returns whether a waiter was woken. Jobs of
-- one name and priority match the same waiters: those that were skipped once are not tried again.
function wakeups.wake(queue, job)
  local list, kind = wakeups.load_waiters(queue), job and job.priority .. (record.has(job, 'hidden') and '\1h'
    or '\1') .. (record.has(job, 'needs_steps') and 's' or '') .. '\1' .. job.name
  if not unwilling[queue] then unwilling[queue] = {} end
  local i = job and unwilling[queue][kind] or 1
  local is_woken = false
  while i <= #list and not is_woken do
    if list[i] then
      local wakeup_list, filter = string.match(list[i], '^([^\1]*)\1(.*)$')
      if not job or tonumber(list[i + 1]) < clock.now_ms or waiter_wants(filter, job) then
        is_woken = ring_waiter(queue, list, i, wakeup_list, filter)
      end
    end
    i = i + 2
  end
  if job then unwilling[queue][kind] = i end
  -- Waiters were not tried because there are too many filters: the queue must be checked again.
  if tried > FILTERS_TRIED then check_later(queue) end
  return is_woken
end

function wakeups.has_no_waiters(queue)
  local list = wakeups.load_waiters(queue)
  for i = 1, #list, 2 do
    if list[i] then return false end
  end
  return true
end

function wakeups.note_takeable(job)
  if #wakeups.load_waiters(job.queue) == 0 then return end
  local list = wakeups.wanted[job.queue]
  if not list then
    list = {}
    wakeups.wanted[job.queue] = list
  end
  list[#list + 1] = job
end

return wakeups
