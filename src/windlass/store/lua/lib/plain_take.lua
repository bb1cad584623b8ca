-- uses: keys, clock, batch, record, lanes, tally, plain, plain_finish
-- Plain jobs are taken from default lanes, alone or with the ends of others (plain.lua says what that is).

-- Of a record: format, state, flags, priority to creation, ready time, start, end, attempt, revision, policy, queue,
-- name, length of the lane, and the lengths of unique key, tags and links in one number.
local QUEUED_PLAIN = '>BBI4c16I6I6I6xxxxxxxxxxxxxxxxxxxxxxxxxxxxI4I4xxxxxxxxxxxxxxBc0Bc0I2c0BI6'
-- The header of a leased job, and what follows its progress.
local LEASED_PLAIN = '>BBI4c16I6I6I6I6I6c16I4I4I4c0'
local AFTER_PROGRESS = 81
local LEASE_MS, TIMEOUT_MS = 5, 11 -- where they stand in a policy

-- A taker from a queue finds only what can be told beforehand: no other lanes, no waiters, nothing due. Then the instants
-- of its timers, else nil.
local function quiet_queue(queue)
  if redis.call('EXISTS', queue_key('heads', queue), queue_key('room', queue), queue_key('waiters', queue),
    P .. 'followed', P .. 'push_full') > 0 then
    return nil
  end
  local overdue = tonumber(redis.call('ZSCORE', P .. 'timers:lease', queue) or math.huge)
  local due = tonumber(redis.call('ZSCORE', P .. 'timers:due', queue) or math.huge)
  if overdue <= now_ms or due <= now_ms then return nil end
  return overdue, due
end

-- Deadline, and when the recoverer looks at it; nil: such a lease is not plain.
local function plain_deadline(policy, lease_ms, queue_lease_ms)
  local timeout_ms = 0
  if policy ~= '' then
    if lease_ms == 0 then lease_ms = struct.unpack('>I6', policy, LEASE_MS) end
    timeout_ms = struct.unpack('>I6', policy, TIMEOUT_MS)
  end
  if lease_ms == 0 then lease_ms = queue_lease_ms end
  if lease_ms >= FOREVER_MS then return nil end
  return now_ms + lease_ms, timeout_ms > 0 and timeout_ms < lease_ms and now_ms + timeout_ms or now_ms + lease_ms
end

-- Adds a lease to `leases`; false: it is not plain.
local function add_lease(leases, of_queue, id, raw, lease_ms)
  local format, state, flags, front, ready_at, started_at, ended_at, attempt, revision, policy, _, _, lane, others =
    struct.unpack(QUEUED_PLAIN, raw)
  if format ~= FORMAT or state ~= STATE.queued or flags > CODEC_BITS or lane + others > 0 or not never_expires(policy) then
    return false
  end
  local deadline, at = plain_deadline(policy, lease_ms, of_queue.lease_ms)
  if not deadline or at < of_queue.overdue then return false end
  local size, waited_ms = #leases + 1, math.max(0, now_ms - ready_at)
  leases[size] = {id, raw, flags, front, ready_at, ended_at, deadline, attempt + 1, revision}
  of_queue.running[#of_queue.running + 1], of_queue.running[#of_queue.running + 2] = at, id
  local span = wait_span(waited_ms)
  of_queue.spans[span] = (of_queue.spans[span] or 0) + 1
  of_queue.waited_ms = of_queue.waited_ms + waited_ms
  if started_at > 0 then
    local before = leases.started_before
    before[#before + 1], before[#before + 2] = id, started_at
  end
  return true
end

-- Adds what a queue has; nil: not all of it is plain.
local function add_leases(leases, queue, most, lease_ms)
  local found = redis.call('HMGET', queue_key('q', queue), 'paused', 'fair_share', 'lease_ms', 'history_length')
  if found[1] or is_set(found[2], 'fair_share') then return nil end
  leases.has_no_history[queue] = not is_set(found[4], 'history_length')
  local overdue, due = quiet_queue(queue)
  if not overdue then return nil end
  leases.following = math.min(leases.following, overdue, due)
  local places = redis.call('ZRANGE', lane_key(queue, ''), 0, most - 1)
  if #places == 0 then return true end
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

-- Leases of up to `most` jobs of the queues from ARGV[at] on, in their order; nil: there are none, or not all are plain.
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
  return #leases > 0 and leases or nil
end

-- Writes the records; answers what takers get.
local function write_leased(leases, worker)
  local token = redis.call('INCRBY', P .. 'token', #leases) - #leases
  local small, holding, answers = {}, {}, {}
  for i = 1, #leases do
    local id, raw, flags, front, ready_at, ended_at, deadline, attempt, revision = unpack(leases[i])
    local leased = struct.pack(LEASED_PLAIN, FORMAT, STATE.running, flags, front, ready_at, now_ms, ended_at, token + i,
      deadline, worker, attempt, revision, 0, string.sub(raw, AFTER_PROGRESS))
    if #raw <= SMALL_BYTES then
      small[#small + 1], small[#small + 2] = job_key(id), leased
    else
      redis.call('SETRANGE', job_key(id), 0, string.sub(leased, 1, HEADER_BYTES))
    end
    holding[2 * i - 1], holding[2 * i], answers[i] = now_ms, id, id .. leased
  end
  if #small > 0 then redis.call('MSET', unpack(small)) end
  if worker ~= NOBODY then redis.call('ZADD', P .. 'wj:' .. worker, unpack(holding)) end
  return answers
end

local function write_leases(leases, worker)
  for _, of_queue in ipairs(leases.of_queue) do
    redis.call('ZREM', lane_key(of_queue.queue, ''), unpack(of_queue.places))
    redis.call('ZADD', queue_key('running', of_queue.queue), unpack(of_queue.running))
    local key, minute = tally_place(of_queue.queue)
    for span, number in pairs(of_queue.spans) do write_tally(key, minute, span, number) end
    write_tally(key, minute, 'wait_ms', of_queue.waited_ms)
  end
  local following = leases.following < math.huge and leases.following or 0
  return {now_ms, following, 0, write_leased(leases, worker), leases.started_before, 0}
end

-- No filter, running at once, nobody waits behind the same bell, a walk that begins, and no slot that is being moved.
local function is_plain_take()
  return ARGV[2] == '' and ARGV[6] == '0' and ARGV[9] ~= '1' and ARGV[10] == '0'
    and not redis.call('HGET', KEYS[1], 'stopped')
end

local function take_plainly()
  if not is_plain_take() then return nil end
  local leases = plain_leases(11, tonumber(ARGV[3]), tonumber(ARGV[5]))
  return leases and write_leases(leases, ARGV[4])
end

local function exchange_plainly()
  local finishes = tonumber(ARGV[11])
  if ARGV[12] ~= '0' or not is_plain_take() then return nil end
  local ends = finishes > 0 and plain_ends(13, finishes)
  if finishes > 0 and not ends then return nil end
  local leases = plain_leases(13 + 5 * finishes, tonumber(ARGV[3]), tonumber(ARGV[5]))
  if not leases or ends and is_history_kept(ends, leases.has_no_history) then return nil end
  return {ends and write_ends(ends) or {}, {}, write_leases(leases, ARGV[4])}
end
