-- uses: keys, clock, batch, record, new_record, ring, tally, ending, numbers, plain, plain_numbered
-- Plain jobs of one queue come in (plain.lua says what that is).

-- Of a record as packed by the caller: format, flags, priority, ready time, policy, queue, name, length of the lane, and
-- the lengths of unique key, tags and links in one number.
local NEW_PLAIN = '>BxI4i4xxxxxxxxxxxxI6xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxBc0Bc0I2c0BI6'

-- The jobs of the call and their queue, or nil: not all of them are plain.
local function plain_jobs()
  local ids, queue, flags, priorities, seen = {}, nil, {}, {}, {}
  for i = 1, (#ARGV - 2) / 2 do
    local entry, id = ARGV[2 * i + 1], sub(ARGV[2 * i + 1], 1, 16)
    local format, own_flags, priority, ready_at, policy, own_queue, _, lane, others = unpacked(NEW_PLAIN, entry, 17)
    queue = queue or own_queue
    if ARGV[2 * i + 2] ~= '' or format ~= FORMAT or own_flags > CODEC_BITS or ready_at > 0 or own_queue ~= queue
      or lane > 0 or others > 0 or seen[id] or not never_expires(policy) then
      return nil
    end
    ids[i], flags[i], priorities[i], seen[id] = id, own_flags, priority, true
  end
  return ids, queue, flags, priorities
end

-- Known, without bounds, and its default lane is where a plain job goes, by its priority alone.
local function lets_in(names)
  local found = call('HMGET', names.q, 'bytes', 'max_length', 'max_bytes', 'name_lanes', 'aging_ms')
  return found[1] and not (is_set(found[2], 'max_length') or is_set(found[3], 'max_bytes')
    or is_set(found[4], 'name_lanes') or is_set(found[5], 'aging_ms'))
end

-- Does nobody know them: is there no record of them, did none of them end lately? Then also whether somebody waits.
local function are_new(ids, keys, names)
  keys[#ids + 1] = names.waiters
  local found = call('EXISTS', unpack(keys))
  local is_waited_for = found == 1 and call('EXISTS', names.waiters) == 1
  return (found == 0 or is_waited_for) and not has_any_ended(ids), is_waited_for
end

-- Who hears of so many jobs: the bells, and the waiters that go for it; nil: one of them does not want just anything.
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

-- What is written for each: its place in the lane, its record; and what the caller is told.
local function written_forms(ids, keys, flags, priorities, before)
  local places, forms, answers, bytes = {}, {}, {}, 0
  for i = 1, #ids do
    local id, entry, priority, sequence = ids[i], ARGV[2 * i + 1], priorities[i], before + i
    places[2 * i - 1] = priority
    places[2 * i] = pack(PLACE, now_ms, sequence, id)
    forms[2 * i - 1] = keys[i]
    forms[2 * i] = pack(NEW_HEADER, FORMAT, STATE.queued, flags[i], priority, sequence, now_ms, now_ms) .. sub(entry, AFTER_HEADER)
    bytes = bytes + #entry - 16
    answers[i] = {'queued', id, FIRST_REVISION}
  end
  return places, forms, answers, bytes
end

local function enqueue_plainly()
  if brings_slip() then return enqueue_numbered() end
  if #ARGV > 2 * PLAIN_MOST + 2 then return nil end
  local ids, queue, flags, priorities = plain_jobs()
  if not ids then return nil end
  local names = names_of(queue)
  local marks = call('MGET', names.limits_version, names.followed)
  if (marks[1] or '0') ~= ARGV[2] or marks[2] or not lets_in(names) then return nil end
  local size, keys = #ids, {}
  for i = 1, size do keys[i] = names.job .. ids[i] end
  local is_new, is_waited_for = are_new(ids, keys, names)
  if not is_new then return nil end
  local bells, gone
  if is_waited_for then
    bells, gone = audience(names, size)
    if not bells then return nil end
  end
  local before = call('INCRBY', names.seq, size) - size
  local places, forms, answers, bytes = written_forms(ids, keys, flags, priorities, before)
  call('ZADD', names.ready, unpack(places))
  call('MSET', unpack(forms))
  call('HINCRBY', names.q, 'bytes', bytes)
  tally_now(names, queue, 'enqueued', size)
  if bells then ring_plainly(names, queue, bells, gone) end
  return answers
end
