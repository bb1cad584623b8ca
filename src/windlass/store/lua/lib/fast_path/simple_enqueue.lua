-- Enqueue of simple jobs of one queue (plain.lua).
local clock = require 'clock'
local numbered_enqueue = require 'fast_path.numbered_enqueue'
local simple = require 'fast_path.simple'
local counters = require 'jobs.counters'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local numbers = require 'numbers'
local script = require 'script'
local wakeups = require 'workers.wakeups'

local simple_enqueue = {}

-- Return the jobs of the call, their parsed headers, and their queue; nil if not all of them are simple.
local function plain_jobs()
  local ids, starts, queue, seen = {}, {}, nil, {}
  for i = 1, (#script.arguments - 2) / 2 do
    local entry = script.arguments[2 * i + 1]
    local id, start, kind = simple.sub(entry, 1, 16), simple.parse(entry)
    if not start or start.flags > record.CODEC_BITS or not kind.is_plain or script.arguments[2 * i + 2] ~= '' or seen[id] then return nil end
    queue = queue or kind.queue
    if kind.queue ~= queue then return nil end
    ids[i], starts[i], seen[id] = id, start, true
  end
  return ids, starts, queue
end

-- Return whether the queue is known, has no bounds, and orders simple jobs in its default lane by priority alone.
function simple_enqueue.accepts(names)
  local found = simple.call('HMGET', names.q, 'bytes', 'max_length', 'max_bytes', 'name_lanes', 'aging_ms')
  return found[1] and not (simple.is_set(found[2], 'max_length') or simple.is_set(found[3], 'max_bytes')
    or simple.is_set(found[4], 'name_lanes') or simple.is_set(found[5], 'aging_ms'))
end

-- Return the wakeup lists for this many jobs and the waiters to remove; nil if a waiter has a filter or the queue is
-- paused.
function simple_enqueue.find_waiters(names, size, is_nothing_set)
  if not is_nothing_set and simple.call('HGET', names.q, 'paused') then return nil end
  local list, wakeup_lists, gone = simple.call('ZRANGE', names.waiters, 0, wakeups.WAITERS_READ - 1, 'WITHSCORES'), {}, {}
  for i = 1, #list, 2 do
    if #wakeup_lists == size then break end
    if tonumber(list[i + 1]) >= clock.now_ms then
      local wakeup_list = string.match(list[i], '^([^\1]*)\1$')
      if not wakeup_list then return nil end
      wakeup_lists[#wakeup_lists + 1] = wakeup_list
    end
    gone[#gone + 1] = list[i]
  end
  return wakeup_lists, gone
end

local function ring_plainly(names, queue, wakeup_lists, gone)
  simple.call('ZREM', names.waiters, unpack(gone))
  for i = 1, #wakeup_lists do
    wakeups.send(wakeup_lists[i], 'Q' .. queue .. '\1')
    if i == 1 then wakeups.check_later(queue) end
  end
end

-- Return the lane entries, the records and their bytes.
local function written_forms(names, ids, starts, before)
  local places, forms, bytes, now = {}, {}, 0, simple.pack('>I6', clock.now_ms)
  for i = 1, #ids do
    local id, start, entry, sequence = ids[i], starts[i], script.arguments[2 * i + 1], simple.pack('>I6', before + i)
    places[2 * i - 1] = start.score
    places[2 * i] = now .. sequence .. id
    forms[2 * i - 1] = names.job .. id
    forms[2 * i] = start.beginning .. sequence .. now .. now .. simple.sub(entry, simple.AFTER_HEADER)
    bytes = bytes + #entry - 16
  end
  return places, forms, bytes
end

-- Return the ids of the added jobs, or nil.
function simple_enqueue.enqueue()
  if numbers.has_request_id() then return numbered_enqueue.enqueue() end
  if #script.arguments > 2 * simple.JOBS_MAX + 2 then return nil end
  local ids, starts, queue = plain_jobs()
  if not ids then return nil end
  local names = simple.keys_of(queue)
  local marks = simple.call('MGET', names.limits_version, names.followed, names.seq)
  if (marks[1] or '0') ~= script.arguments[2] or marks[2] or not simple_enqueue.accepts(names) or ending.has_any_ended(ids) then return nil end
  local size, wakeup_lists, gone = #ids, nil, nil
  if simple.call('EXISTS', names.waiters) == 1 then
    wakeup_lists, gone = simple_enqueue.find_waiters(names, size)
    if not wakeup_lists then return nil end
  end
  local places, forms, bytes = written_forms(names, ids, starts, tonumber(marks[3] or 0))
  -- If one of the records exists, MSETNX writes nothing.
  if simple.call('MSETNX', unpack(forms)) == 0 then return nil end
  simple.call('INCRBY', names.seq, size)
  simple.call('ZADD', names.ready, unpack(places))
  simple.call('HINCRBY', names.q, 'bytes', bytes)
  counters.write_now(names, queue, 'enqueued', size)
  if wakeup_lists then ring_plainly(names, queue, wakeup_lists, gone) end
  return ids
end

return simple_enqueue
