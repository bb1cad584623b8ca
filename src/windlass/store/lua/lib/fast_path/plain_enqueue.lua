-- uses: keys, clock, batch, record, new_record, wakeups, counters, ending, numbers, plain, plain_numbered
-- Enqueue of simple jobs of one queue (plain.lua).

-- Return the jobs of the call, their parsed headers, and their queue; nil if not all of them are simple.
local function plain_jobs()
  local ids, starts, queue, seen = {}, {}, nil, {}
  for i = 1, (#ARGV - 2) / 2 do
    local entry = ARGV[2 * i + 1]
    local id, start, kind = sub(entry, 1, 16), start_and_kind(entry)
    if not start or start.flags > CODEC_BITS or not kind.is_plain or ARGV[2 * i + 2] ~= '' or seen[id] then return nil end
    queue = queue or kind.queue
    if kind.queue ~= queue then return nil end
    ids[i], starts[i], seen[id] = id, start, true
  end
  return ids, starts, queue
end

-- Return whether the queue is known, has no bounds, and orders simple jobs in its default lane by priority alone.
local function lets_in(names)
  local found = call('HMGET', names.q, 'bytes', 'max_length', 'max_bytes', 'name_lanes', 'aging_ms')
  return found[1] and not (is_set(found[2], 'max_length') or is_set(found[3], 'max_bytes')
    or is_set(found[4], 'name_lanes') or is_set(found[5], 'aging_ms'))
end

-- Return the wakeup lists for this many jobs and the waiters to remove; nil if a waiter has a filter or the queue is
-- paused.
local function audience(names, size, is_nothing_set)
  if not is_nothing_set and call('HGET', names.q, 'paused') then return nil end
  local list, bells, gone = call('ZRANGE', names.waiters, 0, WAITERS_LOOKED_AT - 1, 'WITHSCORES'), {}, {}
  for i = 1, #list, 2 do
    if #bells == size then break end
    if tonumber(list[i + 1]) >= now_ms then
      local bell = string.match(list[i], '^([^\1]*)\1$')
      if not bell then return nil end
      bells[#bells + 1] = bell
    end
    gone[#gone + 1] = list[i]
  end
  return bells, gone
end

local function ring_plainly(names, queue, bells, gone)
  call('ZREM', names.waiters, unpack(gone))
  for i = 1, #bells do
    strike(bells[i], 'Q' .. queue .. '\1')
    if i == 1 then check_ring(queue) end
  end
end

-- Return the lane entries, the records and their bytes.
local function written_forms(names, ids, starts, before)
  local places, forms, bytes, now = {}, {}, 0, pack('>I6', now_ms)
  for i = 1, #ids do
    local id, start, entry, sequence = ids[i], starts[i], ARGV[2 * i + 1], pack('>I6', before + i)
    places[2 * i - 1] = start.score
    places[2 * i] = now .. sequence .. id
    forms[2 * i - 1] = names.job .. id
    forms[2 * i] = start.beginning .. sequence .. now .. now .. sub(entry, AFTER_HEADER)
    bytes = bytes + #entry - 16
  end
  return places, forms, bytes
end

-- Return the ids of the added jobs, or nil.
local function enqueue_plainly()
  if brings_slip() then return enqueue_numbered() end
  if #ARGV > 2 * PLAIN_MOST + 2 then return nil end
  local ids, starts, queue = plain_jobs()
  if not ids then return nil end
  local names = names_of(queue)
  local marks = call('MGET', names.limits_version, names.followed, names.seq)
  if (marks[1] or '0') ~= ARGV[2] or marks[2] or not lets_in(names) or has_any_ended(ids) then return nil end
  local size, bells, gone = #ids, nil, nil
  if call('EXISTS', names.waiters) == 1 then
    bells, gone = audience(names, size)
    if not bells then return nil end
  end
  local places, forms, bytes = written_forms(names, ids, starts, tonumber(marks[3] or 0))
  -- If one of the records exists, MSETNX writes nothing.
  if call('MSETNX', unpack(forms)) == 0 then return nil end
  call('INCRBY', names.seq, size)
  call('ZADD', names.ready, unpack(places))
  call('HINCRBY', names.q, 'bytes', bytes)
  tally_now(names, queue, 'enqueued', size)
  if bells then ring_plainly(names, queue, bells, gone) end
  return ids
end
