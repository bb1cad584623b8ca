-- uses: keys, clock, batch, record, new_record, counters, lanes, numbers, plain
-- Enqueue of jobs that get numbers and are simple except for two things: each goes into the lane of its name, and holds
-- a unique key that is not checked. Bedrock enqueues such jobs.

local function is_as_usual(flags) return flags <= CODEC_BITS or flags - bit.band(flags, CODEC_BITS) == FLAG.unique_while_kept end

-- Return the parsed headers and strings of the jobs, and whether all have one name; nil if not all of them are simple.
local function numbered_jobs(size)
  local starts, kinds, are_alike = {}, {}, true
  for i = 1, size do
    local start, kind = start_and_kind(ARGV[2 * i + 3])
    if not start or not is_as_usual(start.flags) or not kind.is_named or ARGV[2 * i + 4] ~= '' then return nil end
    starts[i], kinds[i] = start, kind
    if kind.queue ~= kinds[1].queue then return nil end
    are_alike = are_alike and kind.name == kinds[1].name
  end
  return starts, kinds, are_alike
end

-- Return the beginning of its record, with the flag for the lane of its name.
local function beginning_by_name(start)
  if not start.by_name then
    start.by_name = pack('>BBI4i4', FORMAT, STATE.queued, bit.bor(start.flags, FLAG.name_lane), start.priority)
  end
  return start.by_name
end

-- Return whether the queue is known, has no bounds, and orders jobs in name lanes by priority alone.
local function lets_in_by_name(names)
  local found = call('HMGET', names.q, 'bytes', 'max_length', 'max_bytes', 'aging_ms', 'fair_share', 'name_lanes', 'relane')
  return found[1] and not (is_set(found[2], 'max_length') or is_set(found[3], 'max_bytes') or is_set(found[4], 'aging_ms')
    or is_set(found[5], 'fair_share') or found[7]) and is_set(found[6], 'name_lanes')
end

-- Return the ids of the jobs and the keys of their records (and two more keys); nil if an id is known, a taker waits,
-- or a lane is blocked.
local function new_ids(names, last, size)
  local ids, keys = {}, {}
  for i = 1, size do
    ids[i] = numbered_id(ARGV[2 * i + 3], last + i)
    keys[i] = names.job .. ids[i]
  end
  keys[size + 1] = names.waiters
  keys[size + 2] = names.parked_at
  if call('EXISTS', unpack(keys)) > 0 then return nil end
  return ids, keys
end

local function joined(groups, group, score, member)
  local list = groups[group]
  if not list then
    list = {}
    groups[group] = list
  end
  local size = #list
  list[size + 1] = score
  list[size + 2] = member
end

-- Add jobs to a lane behind those of their priority. The head of the lane may change.
local function fill_lane(names, queue, lane, places)
  local key = lane_key(queue, lane)
  local before, score_before = first_of(key)
  call('ZADD', key, unpack(places))
  local head, score = first_of(key)
  if head == before and score == score_before then return end
  if before then call('ZREM', names.heads, before .. lane) end
  call('ZADD', names.heads, score, head .. lane)
  if not before then call('ZADD', names.lane_names, 0, name_of_lane(lane) .. '\0' .. lane) end
end

local function write_numbered(names, ids, keys, before, starts)
  local places, forms, bytes, now = {}, {}, 0, pack('>I6', now_ms)
  for i = 1, #ids do
    local start, entry, sequence = starts[i], ARGV[2 * i + 3], pack('>I6', before + i)
    places[2 * i - 1] = start.score
    places[2 * i] = now .. sequence .. ids[i]
    forms[2 * i - 1] = keys[i]
    forms[2 * i] = beginning_by_name(start) .. sequence .. now .. now .. sub(entry, AFTER_HEADER)
    bytes = bytes + #entry - 16
  end
  call('ZADD', names.laned, unpack(places))
  call('MSET', unpack(forms))
  call('HINCRBY', names.q, 'bytes', bytes)
  return places
end

local function enqueue_numbered()
  local size = (#ARGV - 4) / 2
  if size > PLAIN_MOST then return nil end
  local starts, kinds, are_alike = numbered_jobs(size)
  if not starts then return nil end
  local queue, slip, of_call = kinds[1].queue, slip_of_call()
  local names = names_of(queue)
  local marks = call('MGET', names.limits_version, names.followed, slip, names.number)
  if (marks[1] or '0') ~= ARGV[4] or marks[2] or last_drawn(marks[3]) >= of_call or not lets_in_by_name(names) then
    return nil
  end
  local ids, keys = new_ids(names, tonumber(marks[4] or 0), size)
  if not ids then return nil end
  draw_once(slip, of_call, size)
  local before = call('INCRBY', names.seq, size) - size
  local places = write_numbered(names, ids, keys, before, starts)
  local lanes, holders = {}, {}
  if are_alike then lanes['\0' .. kinds[1].name] = places end
  for i = 1, size do
    local kind = kinds[i]
    if not are_alike then joined(lanes, '\0' .. kind.name, starts[i].score, places[2 * i]) end
    if kind.unique ~= '' then joined(holders, kind.unique, before + i, ids[i]) end
  end
  for lane, own in pairs(lanes) do fill_lane(names, queue, lane, own) end
  for unique, own in pairs(holders) do call('ZADD', names.unique .. unique, unpack(own)) end
  tally_now(names, queue, 'enqueued', size)
  return ids
end
