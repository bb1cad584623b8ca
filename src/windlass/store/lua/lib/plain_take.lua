-- uses: keys, clock, batch, record, ring, lanes, tally, plain, plain_finish
-- Plain jobs are taken from default lanes, alone or with the ends of others (plain.lua says what that is).

-- Of a record: format, state, flags, priority, sequence, creation, ready time, start, end, attempt, revision, policy,
-- queue, name, length of the lane, and the lengths of unique key, tags and links in one number.
local QUEUED_PLAIN = '>BBI4i4I6I6I6I6I6xxxxxxxxxxxxxxxxxxxxxxxxxxxxI4I4xxxxxxxxxxxxxxBc0Bc0I2c0BI6'
local LEASED_PLAIN = '>BBI4i4I6I6I6I6I6I6I6c16I4I4I4c0' -- a header as in record.lua; from the bytes of the head on as it was
local AFTER_PROGRESS = HEADER_BYTES - 1
local LEASE_MS, TIMEOUT_MS = 5, 11 -- where they stand in a policy

-- The instants of a queue's timers; nil: something is due.
local function next_instants(names, queue)
  local overdue = tonumber(call('ZSCORE', names.lease, queue) or math.huge)
  local due = tonumber(call('ZSCORE', names.due, queue) or math.huge)
  if overdue <= now_ms or due <= now_ms then return nil end
  return overdue, due
end

-- A taker from a queue finds only what can be told beforehand: no other lanes, nothing due. Then the instants of its timers
-- and whether others wait there, else nil.
local function quiet_queue(queue)
  local names = names_of(queue)
  local found = call('EXISTS', names.heads, names.room, names.waiters, names.followed, names.push_full)
  if found > 1 or found == 1 and call('EXISTS', names.waiters) == 0 then return nil end
  local overdue, due = next_instants(names, queue)
  return overdue, due, found == 1
end

-- Deadline, and when the recoverer looks at it; nil: such a lease is not plain.
local function plain_deadline(policy, lease_ms, queue_lease_ms)
  local timeout_ms = 0
  if policy ~= '' then
    if lease_ms == 0 then lease_ms = unpacked('>I6', policy, LEASE_MS) end
    timeout_ms = unpacked('>I6', policy, TIMEOUT_MS)
  end
  if lease_ms == 0 then lease_ms = queue_lease_ms end
  if lease_ms >= FOREVER_MS then return nil end
  return now_ms + lease_ms, timeout_ms > 0 and timeout_ms < lease_ms and now_ms + timeout_ms or now_ms + lease_ms
end

-- Adds a lease to `leases`; false: it is not plain.
local function add_lease(leases, of_queue, id, raw, lease_ms)
  local format, state, flags, priority, sequence, created_at, ready_at, started_at, ended_at, attempt, revision, policy, _, _,
    lane, others = unpacked(QUEUED_PLAIN, raw)
  if format ~= FORMAT or state ~= STATE.queued or flags > CODEC_BITS or lane + others > 0 or not never_expires(policy) then
    return false
  end
  local deadline, at = plain_deadline(policy, lease_ms, of_queue.lease_ms)
  if not deadline or at < of_queue.overdue then return false end
  leases[#leases + 1] = {id, raw, flags, priority, sequence, created_at, ready_at, ended_at, deadline, attempt + 1, revision}
  local running, spans = of_queue.running, of_queue.spans
  running[#running + 1] = at
  running[#running + 1] = id
  local waited_ms = math.max(0, now_ms - ready_at)
  local span = wait_span(waited_ms)
  spans[span] = (spans[span] or 0) + 1
  of_queue.waited_ms = of_queue.waited_ms + waited_ms
  if started_at > 0 then
    local before = leases.started_before
    before[#before + 1] = id
    before[#before + 1] = started_at
  end
  return true
end

-- Adds what a queue has; nil: not all of it is plain.
local function add_leases(leases, queue, most, lease_ms)
  local names = names_of(queue)
  local found = call('HMGET', names.q, 'paused', 'fair_share', 'lease_ms', 'history_length')
  if found[1] or is_set(found[2], 'fair_share') then return nil end
  leases.has_no_history[queue] = not is_set(found[4], 'history_length')
  local overdue, due, do_others_wait = quiet_queue(queue)
  if not overdue then return nil end
  leases.following = math.min(leases.following, overdue, due)
  local places = call('ZRANGE', names.ready, 0, most - 1)
  if #places == 0 then return true end
  -- What a full batch leaves behind is offered to others.
  if do_others_wait and #places == most and call('ZCARD', names.ready) > most then return nil end
  local of_queue = {queue = queue, places = places, lease_ms = tonumber(found[3] or DEFAULT.lease_ms), overdue = overdue, running = {},
    spans = {}, waited_ms = 0}
  local ids = {}
  for i = 1, #places do ids[i] = id_in_place(places[i]) end
  local raws = read_whole(ids)
  for i = 1, #ids do
    if not raws[i] or not add_lease(leases, of_queue, ids[i], raws[i], lease_ms) then return nil end
  end
  leases.of_queue[#leases.of_queue + 1] = of_queue
  return true
end

-- Leases of up to `most` jobs of the queues from ARGV[at] on, in their order; nil: not all are plain, or there are none and
-- steps of families are to be done first.
local function plain_leases(at, most, lease_ms)
  if most > PLAIN_MOST then return nil end
  local leases = {of_queue = {}, following = math.huge, started_before = {}, has_no_history = {}}
  for i = at, #ARGV do
    if #leases >= most then break end
    for _, of_queue in ipairs(leases.of_queue) do
      if of_queue.queue == ARGV[i] then return nil end
    end
    if not add_leases(leases, ARGV[i], most - #leases, lease_ms) then return nil end
  end
  if #leases == 0 and call('EXISTS', P .. 'work') == 1 then return nil end
  return leases
end

-- Writes the records; answers what takers get.
local function write_leased(leases, worker)
  local number = #leases
  local token = call('INCRBY', P .. 'token', number) - number
  local small, holding, answers = {}, {}, {}
  for i = 1, number do
    local id, raw, flags, priority, sequence, created_at, ready_at, ended_at, deadline, attempt, revision =
      unpack(leases[i])
    local leased = pack(LEASED_PLAIN, FORMAT, STATE.running, flags, priority, sequence, created_at, ready_at, now_ms, ended_at,
      token + i, deadline, worker, attempt, revision, 0, sub(raw, AFTER_PROGRESS))
    if #raw <= SMALL_BYTES then
      small[#small + 1] = job_key(id)
      small[#small + 1] = leased
    else
      call('SETRANGE', job_key(id), 0, sub(leased, 1, HEADER_BYTES))
    end
    holding[2 * i - 1] = now_ms
    holding[2 * i] = id
    answers[i] = id .. leased
  end
  if #small > 0 then call('MSET', unpack(small)) end
  if worker ~= NOBODY then call('ZADD', P .. 'wj:' .. worker, unpack(holding)) end
  return answers
end

-- Who finds nothing waits, if there is a bell to be rung.
local function register_from(at)
  if ARGV[7] == '' then return end
  local for_ms = tonumber(ARGV[8])
  for i = at, #ARGV do wait_for_ring(ARGV[i], ARGV[7], '', for_ms) end
  if ARGV[9] == '2' then offer_hand(ARGV[7], ARGV[4], for_ms) end
end

local function write_leases(leases, worker, queues_at)
  local following = leases.following < math.huge and leases.following or 0
  if #leases == 0 then
    register_from(queues_at)
    return {now_ms, following, 0, NOTHING, NOTHING, 0}
  end
  for _, of_queue in ipairs(leases.of_queue) do
    local queue, names = of_queue.queue, names_of(of_queue.queue)
    call('ZREM', names.ready, unpack(of_queue.places))
    call('ZADD', names.running, unpack(of_queue.running))
    for span, number in pairs(of_queue.spans) do tally_now(names, queue, span, number) end
    tally_now(names, queue, 'wait_ms', of_queue.waited_ms)
  end
  return {now_ms, following, 0, write_leased(leases, worker), leases.started_before, 0}
end

-- No filter, running at once, nobody waits behind the same bell, a walk that begins, and no slot that is being moved.
local function is_plain_take()
  return ARGV[2] == '' and ARGV[6] == '0' and ARGV[9] ~= '1' and ARGV[10] == '0'
    and not call('HGET', KEYS[1], 'stopped')
end

local function take_plainly()
  if not is_plain_take() then return nil end
  local leases = plain_leases(11, tonumber(ARGV[3]), tonumber(ARGV[5]))
  return leases and write_leases(leases, ARGV[4], 11)
end

local function exchange_plainly()
  local finishes = tonumber(ARGV[11])
  if ARGV[12] ~= '0' or not is_plain_take() then return nil end
  -- First the queues: where they have other lanes, that is known after three commands.
  local queues_at = 13 + 5 * finishes
  local leases = plain_leases(queues_at, tonumber(ARGV[3]), tonumber(ARGV[5]))
  if not leases then return nil end
  if finishes == 0 then return {{}, {}, write_leases(leases, ARGV[4], queues_at)} end
  local ends = plain_ends(13, finishes)
  if not ends or is_history_kept(ends, leases.has_no_history) then return nil end
  return {write_ends(ends), {}, write_leases(leases, ARGV[4], queues_at)}
end
