-- uses: keys, clock, batch, record, tally, ending, plain
-- Plain jobs end well (plain.lua says what that is). Their lane does not matter any more.

-- Of a record: format, state, flags, when it was started, token, worker, policy, queue, name, lane, and the lengths of
-- unique key, tags and links in one number.
local HELD_PLAIN = '>BBI4xxxxxxxxxxxxxxxxxxxxxxI6xxxxxxI6xxxxxxc16xxxxxxxxxxxxxxxxxxxxxxBc0Bc0I2c0Bc0I6'
local MANY = 16 -- records read at once, with their payloads: where the first is small, the others will be too
local RESULT_MS = 17 -- where it stands in a policy
local ITEM = 5 -- arguments of a finish
local COMPLETE = 1000000 -- as progress
local NOTHING = {}

-- The beginnings of the records and their lengths, or nil: one is missing, or they are long.
local function read_beginnings(keys)
  local raws, lengths = {call('GETRANGE', keys[1], 0, PEEK_BYTES - 1)}, {}
  lengths[1] = #raws[1] < PEEK_BYTES and #raws[1] or call('STRLEN', keys[1])
  for first = 2, #keys, MANY do
    if lengths[first - 1] >= PEEK_BYTES then return nil end
    for i, raw in ipairs(call('MGET', unpack(keys, first, math.min(first + MANY - 1, #keys)))) do
      if not raw then return nil end
      raws[first + i - 1] = raw
      lengths[first + i - 1] = #raw
    end
  end
  return raws[1] ~= '' and raws or nil, lengths
end

-- Does the caller hold a plain job with this record? Then also its queue, worker, start and policy.
local function plain_holding(raw, token)
  if #raw >= PEEK_BYTES and unpacked('>I2', raw, HEADER_BYTES - 1) > #raw then return false end
  local format, state, flags, started_at, own_token, worker, policy, queue, _, _, others = unpacked(HELD_PLAIN, raw)
  return format == FORMAT and state == STATE.running and flags <= CODEC_BITS and others == 0
    and (token == 0 or token == own_token), queue, worker, started_at, policy
end

-- What ends in one queue.
local function new_ends() return {ids = {}, bytes = 0, ran_ms = 0, spans = {}} end

local function note_end(of_queue, id, length, ran_ms)
  of_queue.ids[#of_queue.ids + 1] = id
  of_queue.bytes, of_queue.ran_ms = of_queue.bytes + length, of_queue.ran_ms + ran_ms
  local span = run_span(ran_ms)
  of_queue.spans[span] = (of_queue.spans[span] or 0) + 1
end

local function append(list, first, second)
  list[#list + 1] = first
  list[#list + 1] = second
end

-- The record as it is kept: only its header changes.
local function keep_end(ends, key, queue, id, raw, length, result, kept_ms)
  ends.kept = ends.kept or {ids = {}, written = {}, patched = {}, finished = {}, retention = {}}
  local kept, header = ends.kept, {unpacked(HEADER, raw)}
  kept.ids[id] = true
  header[2], header[9], header[11], header[15] = STATE.finished, now_ms, 0, COMPLETE
  if result ~= '' then
    header[3] = header[3] + FLAG.has_outcome
    append(kept.written, P .. 'o:' .. id, result)
  end
  local written = pack(HEADER, unpack(header, 1, 16))
  if length <= SMALL_BYTES then
    append(kept.written, key, written .. sub(raw, HEADER_BYTES + 1))
  else
    kept.patched[key] = written
  end
  kept.finished[queue] = kept.finished[queue] or {}
  append(kept.finished[queue], now_ms, id)
  if kept_ms < FOREVER_MS then append(kept.retention, now_ms + kept_ms, id) end
end

local function add_end(ends, key, id, raw, length, token, result)
  local is_held, queue, worker, started_at, policy = plain_holding(raw, token)
  if not is_held then return false end
  local of_queue, of_worker = ends.of_queue[queue] or new_ends(), ends.of_worker[worker] or {}
  ends.of_queue[queue], ends.of_worker[worker] = of_queue, of_worker
  note_end(of_queue, id, length, math.max(0, now_ms - started_at))
  of_worker[#of_worker + 1] = id
  if not keeps_no_result(policy) then
    keep_end(ends, key, queue, id, raw, length, result, unpacked('>I6', policy, RESULT_MS))
  end
  return true
end

-- Ids and keys of `count` jobs whose items begin at ARGV[at], or nil: one of them is there twice.
local function ids_of_items(at, count)
  local ids, keys, seen = {}, {}, {}
  for i = 1, count do
    local id = ARGV[at + ITEM * (i - 1)]
    if seen[id] then return nil end
    seen[id] = true
    ids[i] = id
    keys[i] = job_key(id)
  end
  return ids, keys
end

-- The ends of these jobs, or nil: not all of them are plain, or held by the caller.
local function plain_ends(at, count)
  if count > PLAIN_MOST then return nil end
  local ids, keys = ids_of_items(at, count)
  if not ids then return nil end
  local raws, lengths = read_beginnings(keys)
  if not raws then return nil end
  local ends = {ids = ids, keys = keys, of_queue = {}, of_worker = {}}
  for i = 1, count do
    local first = at + ITEM * (i - 1)
    if not add_end(ends, keys[i], ids[i], raws[i], lengths[i], tonumber(ARGV[first + 1]), ARGV[first + 2]) then
      return nil
    end
  end
  return ends
end

local function write_kept(kept)
  call_in_steps('MSET', nil, kept.written)
  for key, header in pairs(kept.patched) do call('SETRANGE', key, 0, header) end
  for queue, list in pairs(kept.finished) do call('ZADD', queue_key('finished', queue), unpack(list)) end
  if #kept.retention > 0 then call('ZADD', P .. 'retention', unpack(kept.retention)) end
end

-- What is not kept goes, and is remembered by its mark.
local function write_gone(ends)
  local gone, marks, kept = {}, {}, ends.kept and ends.kept.ids or NOTHING
  for i = 1, #ends.ids do
    local id = ends.ids[i]
    if not kept[id] then
      gone[#gone + 1] = ends.keys[i]
      marks[#marks + 1] = ended_mark(id)
    end
  end
  if #gone == 0 then return end
  call('DEL', unpack(gone))
  mark_ended(marks)
end

local function write_ends(ends)
  local answers = {}
  for queue, of_queue in pairs(ends.of_queue) do
    local names = names_of(queue)
    call('ZREM', names.running, unpack(of_queue.ids))
    call('HINCRBY', names.q, 'bytes', -of_queue.bytes)
    for span, number in pairs(of_queue.spans) do tally_now(names, queue, span, number) end
    tally_now(names, queue, 'run_ms', of_queue.ran_ms)
  end
  for worker, ids in pairs(ends.of_worker) do
    if worker ~= NOBODY then call('ZREM', P .. 'wj:' .. worker, unpack(ids)) end
  end
  write_gone(ends)
  if ends.kept then write_kept(ends.kept) end
  for i = 1, #ends.ids do answers[i] = 'ok' end
  return answers
end

-- Does one of the queues keep what has ended? Not asked of those that are known not to.
local function is_history_kept(ends, known)
  for queue in pairs(ends.of_queue) do
    if not known[queue] and is_set(call('HGET', names_of(queue).q, 'history_length'), 'history_length') then return true end
  end
  return false
end

local function finish_plainly()
  local ends = plain_ends(2, (#ARGV - 1) / ITEM)
  if not ends or call('EXISTS', P .. 'followed', P .. 'push_full') > 0 or is_history_kept(ends, NOTHING) then
    return nil
  end
  return write_ends(ends)
end
