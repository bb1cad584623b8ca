-- uses: keys, clock, batch, record, new_record, tally, ending, plain
-- Plain jobs of one queue come in (plain.lua says what that is).

-- Of a record as packed by the caller: format, flags, priority, ready time, policy, queue, name, length of the lane, and
-- the lengths of unique key, tags and links in one number.
local NEW_PLAIN = '>BxI4i4xxxxxxxxxxxxI6xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxBc0Bc0I2c0BI6'
local PLACE = '>I6I6c16'

-- The jobs of the call and their queue, or nil: not all of them are plain.
local function plain_jobs()
  local ids, queue, flags, priorities, seen = {}, nil, {}, {}, {}
  for i = 1, (#ARGV - 2) / 2 do
    local entry, id = ARGV[2 * i + 1], string.sub(ARGV[2 * i + 1], 1, 16)
    local format, own_flags, priority, ready_at, policy, own_queue, _, lane, others = struct.unpack(NEW_PLAIN, entry, 17)
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
local function lets_in(queue)
  local found = redis.call('HMGET', queue_key('q', queue), 'bytes', 'max_length', 'max_bytes', 'name_lanes', 'aging_ms')
  return found[1] and not (is_set(found[2], 'max_length') or is_set(found[3], 'max_bytes')
    or is_set(found[4], 'name_lanes') or is_set(found[5], 'aging_ms'))
end

-- Is there a record of one of them, does somebody wait for them, or did one of them end lately?
local function are_expected(ids, keys, queue)
  keys[#ids + 1] = queue_key('waiters', queue)
  if redis.call('EXISTS', unpack(keys)) > 0 then return true end
  local _, is_any = ended_lately(ids)
  return is_any
end

local function enqueue_plainly()
  if #ARGV > 2 * PLAIN_MOST + 2 then return nil end
  local ids, queue, flags, priorities = plain_jobs()
  if not ids then return nil end
  local marks = redis.call('MGET', P .. 'limits_version', P .. 'followed')
  if (marks[1] or '0') ~= ARGV[2] or marks[2] or not lets_in(queue) then return nil end
  local size, keys = #ids, {}
  for i = 1, size do keys[i] = job_key(ids[i]) end
  if are_expected(ids, keys, queue) then return nil end
  local before = redis.call('INCRBY', P .. 'seq', size) - size
  local places, records_of, answers, bytes = {}, {}, {}, -16 * size
  for i = 1, size do
    local id, entry = ids[i], ARGV[2 * i + 1]
    places[2 * i - 1], places[2 * i] = priorities[i], struct.pack(PLACE, now_ms, before + i, id)
    records_of[2 * i - 1], records_of[2 * i] = keys[i], struct.pack(NEW_HEADER, FORMAT, STATE.queued, flags[i],
      priorities[i], before + i, now_ms, now_ms) .. string.sub(entry, 17 + NEW_HEADER_BYTES)
    bytes = bytes + #entry
    answers[i] = {'queued', id, 1}
  end
  redis.call('ZADD', lane_key(queue, ''), unpack(places))
  redis.call('MSET', unpack(records_of))
  redis.call('HINCRBY', queue_key('q', queue), 'bytes', bytes)
  local key, minute = tally_place(queue)
  write_tally(key, minute, 'enqueued', size)
  return answers
end
