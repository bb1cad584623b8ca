-- uses: keys, clock, batch, record, tally, ending, plain
-- Plain jobs end well (plain.lua says what that is). Their lane does not matter any more.

-- Of a record: format, state, flags, when it was started, token, worker, policy, queue, name, lane, and the lengths of
-- unique key, tags and links in one number.
local HELD_PLAIN = '>BBI4xxxxxxxxxxxxxxxxxxxxxxI6xxxxxxI6xxxxxxc16xxxxxxxxxxxxxxxxxxxxxxBc0Bc0I2c0Bc0I6'
local MANY = 16 -- records read at once, with their payloads: where the first is small, the others will be too

-- The beginnings of the records and their lengths, or nil: one is missing.
local function read_beginnings(keys)
  local raws, lengths = {call('GETRANGE', keys[1], 0, PEEK_BYTES - 1)}, {}
  lengths[1] = #raws[1] < PEEK_BYTES and #raws[1] or call('STRLEN', keys[1])
  for first = 2, #keys, MANY do
    if lengths[first - 1] >= PEEK_BYTES then return nil end
    for i, raw in ipairs(call('MGET', unpack(keys, first, math.min(first + MANY - 1, #keys)))) do
      if not raw then return nil end
      raws[first + i - 1], lengths[first + i - 1] = raw, #raw
    end
  end
  return raws[1] ~= '' and raws or nil, lengths
end

-- What ends in one queue.
local function new_ends() return {ids = {}, bytes = 0, ran_ms = 0, spans = {}} end

local function note_end(ends, id, length, ran_ms)
  ends.ids[#ends.ids + 1] = id
  ends.bytes, ends.ran_ms = ends.bytes + length, ends.ran_ms + ran_ms
  local span = run_span(ran_ms)
  ends.spans[span] = (ends.spans[span] or 0) + 1
end

-- Does the caller hold a plain job with this record? Then also its queue, worker and start.
local function plain_holding(raw, token)
  if #raw >= PEEK_BYTES and unpacked('>I2', raw, HEADER_BYTES - 1) > #raw then return false end
  local format, state, flags, started_at, own_token, worker, policy, queue, _, _, others = unpacked(HELD_PLAIN, raw)
  return format == FORMAT and state == STATE.running and flags <= CODEC_BITS and others == 0
    and (token == 0 or token == own_token) and keeps_no_result(policy), queue, worker, started_at
end

-- The ends of `count` jobs whose items begin at ARGV[at], or nil: not all of them are plain, or held by the caller.
local function plain_ends(at, count)
  if count > PLAIN_MOST then return nil end
  local ends = {ids = {}, keys = {}, marks = {}, of_queue = {}, of_worker = {}}
  local ids, seen = ends.ids, {}
  for i = 1, count do
    local id = ARGV[at + 5 * i - 5]
    if seen[id] then return nil end
    ids[i], ends.keys[i], ends.marks[i], seen[id] = id, job_key(id), ended_mark(id), true
  end
  local raws, lengths = read_beginnings(ends.keys)
  for i = 1, raws and count or 0 do
    local is_held, queue, worker, started_at = plain_holding(raws[i], tonumber(ARGV[at + 5 * i - 4]))
    if not is_held then return nil end
    local of_queue, of_worker = ends.of_queue[queue] or new_ends(), ends.of_worker[worker] or {}
    note_end(of_queue, ids[i], lengths[i], math.max(0, now_ms - started_at))
    of_worker[#of_worker + 1] = ids[i]
    ends.of_queue[queue], ends.of_worker[worker] = of_queue, of_worker
  end
  return raws and ends
end

local function write_ends(ends)
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
  call('DEL', unpack(ends.keys))
  mark_ended(ends.marks)
  local answers = {}
  for i = 1, #ends.ids do answers[i] = 'ok' end
  return answers
end

-- Does one of the queues keep what has ended? Not asked of those that are known not to.
local function is_history_kept(ends, known)
  for queue in pairs(ends.of_queue) do
    if not known[queue] and is_set(call('HGET', names_of(queue).q, 'history_length'), 'history_length') then
      return true
    end
  end
  return false
end

local function finish_plainly()
  local ends = plain_ends(2, (#ARGV - 1) / 5)
  if not ends or call('EXISTS', P .. 'followed', P .. 'push_full') > 0 or is_history_kept(ends, {}) then
    return nil
  end
  return write_ends(ends)
end
