-- uses: keys, clock, batch, record, new_record, wakeups, counters, plain, plain_finish
-- Take of simple jobs from default lanes, alone or together with finishes (plain.lua).

-- Fields of a queued record: format and state as one number, flags, unchanged fields up to the ready time, fields that
-- a first lease overwrites, bytes of the head. The job's lane entry contains the ready time too.
local QUEUED_PLAIN = '>I2I4c22c52I2'
local LEASED_PLAIN = '>BBI4i4I6I6I6I6I6I6I6c16I4I4I4c0' -- a header as in record.lua; the rest is unchanged
local AFTER_PROGRESS = HEADER_BYTES - 1

local MANY_ADDED = 32 -- elements: scores and members
local LONG_MEMBER = '-----------------------------------------------------------------' -- 65 bytes

local QUEUED_FORM, UNTAKEN, RUNNING
at_begin[#at_begin + 1] = function()
  if UNTAKEN then return end
  QUEUED_FORM, RUNNING = 256 * FORMAT + STATE.queued, {}
  UNTAKEN = pack('>I6I6I6I6c16I4I4I4', 0, 0, 0, 0, NOBODY, 0, FIRST_REVISION, 0)
  for flags = 0, CODEC_BITS do RUNNING[flags] = pack('>BBI4', FORMAT, STATE.running, flags) end
end

-- Return the instants of a queue's timers; nil if something is due.
local function next_instants(names, queue)
  local overdue = tonumber(call('ZSCORE', names.lease, queue) or math.huge)
  local due = tonumber(call('ZSCORE', names.due, queue) or math.huge)
  if overdue <= now_ms or due <= now_ms then return nil end
  return overdue, due
end

-- Return the instants of a queue's timers, and whether others wait there; nil if the queue has other lanes or something
-- is due.
local function quiet_queue(queue)
  local names = names_of(queue)
  local found = call('EXISTS', names.heads, names.room, names.waiters, names.followed, names.push_full)
  if found > 1 or found == 1 and call('EXISTS', names.waiters) == 0 then return nil end
  local overdue, due = next_instants(names, queue)
  return overdue, due, found == 1
end

-- Return the lease of one kind of job in this call: deadline, instant at which the recoverer checks it, and the header
-- after the token for a first lease. Returns nil if such a lease is not simple.
local function make_terms(leases, of_queue, kind)
  local lease_ms, timeout_ms = leases.lease_ms, kind.timeout_ms
  if lease_ms == 0 then lease_ms = kind.lease_ms end
  if lease_ms == 0 then lease_ms = of_queue.lease_ms end
  if lease_ms >= FOREVER_MS then return nil end
  local deadline = now_ms + lease_ms
  local at = timeout_ms > 0 and timeout_ms < lease_ms and now_ms + timeout_ms or deadline
  if at < of_queue.overdue then return nil end
  local terms = {deadline = deadline, at = string.format('%.0f', at),
    first = pack('>I6c16I4I4I4', deadline, leases.worker, 1, FIRST_REVISION, 0)}
  of_queue.terms[kind] = terms
  return terms
end

-- Return the record of a job that was leased or changed before.
local function leased_again(leases, id, raw, token, deadline)
  local _, _, flags, priority, sequence, created_at, ready_at, started_at, ended_at, _, _, _, attempt, revision =
    unpacked(HEADER, raw)
  if started_at > 0 then
    local before = leases.started_before
    before[#before + 1] = id
    before[#before + 1] = started_at
  end
  return pack(LEASED_PLAIN, FORMAT, STATE.running, flags, priority, sequence, created_at, ready_at, now_ms, ended_at, token,
    deadline, leases.worker, attempt + 1, revision, 0, sub(raw, AFTER_PROGRESS))
end

local function note_wait(of_queue, waited_ms)
  local span = wait_span(waited_ms)
  of_queue.spans[span] = (of_queue.spans[span] or 0) + 1
  of_queue.waited_ms = of_queue.waited_ms + waited_ms
end

-- Of a long record only the header is written; the other records are written together.
local function write_later(leases, key, leased)
  if #leased > SMALL_BYTES then
    leases.patched[key] = sub(leased, 1, HEADER_BYTES)
    return
  end
  local written, size = leases.written, leases.size
  written[size + 1] = key
  written[size + 2] = leased
  leases.size = size + 2
end

-- Add a lease to `leases`; return false if it is not simple.
local function add_lease(leases, of_queue, place, key, raw)
  local form, flags, since, taken, head_bytes = unpacked(QUEUED_PLAIN, raw)
  local kind = form == QUEUED_FORM and flags <= CODEC_BITS and kind_of(sub(raw, STRINGS_AT, head_bytes))
  local terms = kind and kind.is_plain and (of_queue.terms[kind] or make_terms(leases, of_queue, kind))
  if not terms then return false end
  local ready_at, _, id = unpacked(PLACE, place)
  local number, leased = leases.number + 1, nil
  local token = leases.token + number
  if taken == UNTAKEN then
    leased = RUNNING[flags] .. since .. leases.began .. pack('>I6', token) .. terms.first .. sub(raw, AFTER_PROGRESS)
  else
    leased = leased_again(leases, id, raw, token, terms.deadline)
  end
  leases.number, leases.answers[number] = number, id .. leased
  write_later(leases, key, leased)
  leases.holding[2 * number - 1] = leases.instant
  leases.holding[2 * number] = id
  local running, size = of_queue.running, of_queue.size
  running[size + 1] = terms.at
  running[size + 2] = id
  of_queue.size = size + 2
  note_wait(of_queue, ready_at < now_ms and now_ms - ready_at or 0)
  return true
end

-- Add the jobs of a queue; return nil if not all of them are simple.
local function add_leases(leases, queue, most)
  local names = names_of(queue)
  local found = call('HMGET', names.q, 'paused', 'fair_share', 'lease_ms', 'history_length')
  if found[1] or is_set(found[2], 'fair_share') then return nil end
  leases.has_no_history[queue] = not is_set(found[4], 'history_length')
  local overdue, due, do_others_wait = quiet_queue(queue)
  if not overdue then return nil end
  leases.following = math.min(leases.following, overdue, due)
  local places = call('ZRANGE', names.ready, 0, most - 1)
  if #places == 0 then return true end
  -- The general path offers the rest of a full batch to other takers.
  if do_others_wait and #places == most and call('ZCARD', names.ready) > most then return nil end
  local of_queue = {queue = queue, places = places, lease_ms = tonumber(found[3] or DEFAULT.lease_ms), overdue = overdue,
    terms = {}, running = {}, size = 0, spans = {}, waited_ms = 0}
  local keys = {}
  for i = 1, #places do keys[i] = names.job .. sub(places[i], 13) end
  local raws = read_whole(keys)
  for i = 1, #keys do
    if not raws[i] or not add_lease(leases, of_queue, places[i], keys[i], raws[i]) then return nil end
  end
  leases.of_queue[#leases.of_queue + 1] = of_queue
  return true
end

local function no_leases(lease_ms, worker)
  return {of_queue = {}, following = math.huge, started_before = {}, has_no_history = {}, lease_ms = lease_ms, worker = worker,
    number = 0, answers = {}, written = {}, size = 0, patched = {}, holding = {}, token = tonumber(call('GET', P .. 'token') or 0),
    began = pack('>I6I6', now_ms, 0), instant = string.format('%.0f', now_ms)}
end

-- Return leases of up to `most` jobs of the queues from ARGV[at] on, in their order; nil if not all of them are simple,
-- or if there are none and steps on dependencies are pending.
local function plain_leases(at, most, lease_ms)
  if most > PLAIN_MOST then return nil end
  local leases = no_leases(lease_ms, ARGV[4])
  for i = at, #ARGV do
    if leases.number >= most then break end
    for _, of_queue in ipairs(leases.of_queue) do
      if of_queue.queue == ARGV[i] then return nil end
    end
    if not add_leases(leases, ARGV[i], most - leases.number) then return nil end
  end
  if leases.number == 0 and call('EXISTS', P .. 'work') == 1 then return nil end
  return leases
end

-- By default the engine stores a short sorted set as a list, and each operation scans it: with many changes that is a
-- quarter of the work. A long member makes it a skiplist, which it stays until it is empty.
local function z_add_many(key, list)
  if #list < MANY_ADDED or call('OBJECT', 'ENCODING', key) == 'skiplist' then
    call('ZADD', key, unpack(list))
  else
    call('ZADD', key, 0, LONG_MEMBER, unpack(list))
    call('ZREM', key, LONG_MEMBER)
  end
end

local function write_leased(leases)
  if leases.size > 0 then call('MSET', unpack(leases.written)) end
  for key, header in pairs(leases.patched) do call('SETRANGE', key, 0, header) end
  call('INCRBY', P .. 'token', leases.number)
  if leases.worker ~= NOBODY then z_add_many(P .. 'wj:' .. leases.worker, leases.holding) end
end

-- Register a caller that found nothing, if it has a wakeup list.
local function register_from(at)
  if ARGV[7] == '' then return end
  local for_ms = tonumber(ARGV[8])
  for i = at, #ARGV do wait_for_ring(ARGV[i], ARGV[7], '', for_ms) end
  if ARGV[9] == '2' then offer_hand(ARGV[7], ARGV[4], for_ms) end
end

local function write_leases(leases, queues_at)
  local following = leases.following < math.huge and leases.following or 0
  if leases.number == 0 then
    register_from(queues_at)
    return {now_ms, following, 0, NOTHING, NOTHING, 0}
  end
  for _, of_queue in ipairs(leases.of_queue) do
    local queue, names = of_queue.queue, names_of(of_queue.queue)
    call('ZREM', names.ready, unpack(of_queue.places))
    z_add_many(names.running, of_queue.running)
    for span, number in pairs(of_queue.spans) do tally_now(names, queue, span, number) end
    tally_now(names, queue, 'wait_ms', of_queue.waited_ms)
  end
  write_leased(leases)
  return {now_ms, following, 0, leases.answers, leases.started_before, 0}
end

-- Return whether the take is simple: no filter, running at once, no others on the wakeup list, a scan from the start,
-- and a partition that is not stopped.
local function is_plain_take()
  return ARGV[2] == '' and ARGV[6] == '0' and ARGV[9] ~= '1' and ARGV[10] == '0'
    and not call('HGET', KEYS[1], 'stopped')
end

local function take_plainly()
  if not is_plain_take() then return nil end
  local leases = plain_leases(11, tonumber(ARGV[3]), tonumber(ARGV[5]))
  return leases and write_leases(leases, 11)
end

local function exchange_plainly()
  local finishes = tonumber(ARGV[11])
  if ARGV[12] ~= '0' or not is_plain_take() then return nil end
  -- Queues first: three commands show whether they have other lanes.
  local queues_at = 13 + finishes
  local leases = plain_leases(queues_at, tonumber(ARGV[3]), tonumber(ARGV[5]))
  if not leases then return nil end
  if finishes == 0 then return {{}, {}, write_leases(leases, queues_at)} end
  local ends = plain_ends(13, finishes)
  if not ends or is_history_kept(ends, leases.has_no_history) then return nil end
  -- In this order the indexes of running jobs do not become empty in between.
  local taken = write_leases(leases, queues_at)
  write_ends(ends)
  return {finishes, {}, taken}
end
