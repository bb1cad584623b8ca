-- uses: keys, clock, batch, record, new_record, wakeups, counters, plain, plain_take
-- Direct handoff: a simple job that is added to an idle queue is leased to a waiting worker and travels with the
-- wakeup. The job is dispatched, so it returns to its queue without a spent attempt if the worker does not accept it in
-- time. The lease of a dead worker need not expire first.
local HAND_MS = 2000
local HANDED_BYTES = 16384 -- a take reads a longer record more cheaply

-- Return the worker of a wakeup list if it may be handed the next job of this queue: only a job that it would take
-- itself.
local function hand_of(names, queue, bell, is_nothing_set)
  local worker = bell and #ARGV[3] <= HANDED_BYTES and call('GET', names.hand .. bell)
  if not worker or call('HGET', KEYS[1], 'stopped') or not next_instants(names, queue)
    or call('EXISTS', names.ready, names.heads, names.room, names.push_full) > 0 then
    return nil
  end
  return (is_nothing_set or not is_set(call('HGET', names.q, 'fair_share'), 'fair_share')) and worker
end

local function hand_over_plainly(names, queue, id, start, worker, bell, gone)
  local entry, deadline = ARGV[3], now_ms + HAND_MS
  local sequence, token = call('INCRBY', names.seq, 1), call('INCRBY', names.token, 1)
  local record = pack(LEASED_PLAIN, FORMAT, STATE.dispatched, start.flags, start.priority, sequence, now_ms, now_ms, now_ms, 0, token,
    deadline, worker, 1, FIRST_REVISION, 0, sub(entry, 16 + AFTER_PROGRESS))
  call('SET', names.job .. id, record)
  call('ZADD', names.running, deadline, id)
  call('ZADD', P .. 'wj:' .. worker, now_ms, id)
  if call('ZADD', names.lease, 'LT', 'CH', deadline, queue) == 1 then tell_loops(deadline) end
  call('HINCRBY', names.q, 'bytes', #entry - 16)
  tally_now(names, queue, 'enqueued', 1)
  tally_now(names, queue, wait_span(0), 1)
  call('ZREM', names.waiters, unpack(gone))
  strike(bell, 'H' .. id .. record)
  return id
end
