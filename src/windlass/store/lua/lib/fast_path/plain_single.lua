-- uses: keys, clock, batch, record, new_record, counters, ending, numbers, plain, plain_hand, plain_enqueue
-- Enqueue of one simple job (plain.lua), which is the most frequent call. The effect is that of plain_enqueue.lua,
-- without its lists.

-- Return whether the queue is known and nothing was ever set for it: then its bytes are the only field.
local function is_bare(names)
  local found = call('HGETALL', names.q)
  return #found == 2 and found[1] == 'bytes'
end

-- Return whether the job may be added, and whether the queue is bare. Call it if there is no record of the job and no
-- follower.
local function is_let_in(names, id)
  local is_nothing_set = is_bare(names)
  return (is_nothing_set or lets_in(names)) and (call('GET', names.limits_version) or '0') == ARGV[2] and not has_ended(id),
    is_nothing_set
end

-- Hand the job to a waiting worker, if possible; otherwise plain_enqueue.lua adds it.
local function hand_single(names, queue, id, start, is_nothing_set)
  local bells, gone = audience(names, 1, is_nothing_set)
  local worker = bells and hand_of(names, queue, bells[1], is_nothing_set)
  return worker and {hand_over_plainly(names, queue, id, start, worker, bells[1], gone)}
end

local function enqueue_single(entry)
  local start, kind = start_and_kind(entry)
  if not start or start.flags > CODEC_BITS or not kind.is_plain or ARGV[4] ~= '' then return nil end
  local queue = kind.queue
  local names, id = names_of(queue), sub(entry, 1, 16)
  local key = names.job .. id
  -- If exactly one of these keys exists, it must be `waiters`; otherwise hand_single finds no waiter and returns nil.
  local found = call('EXISTS', key, names.waiters, names.followed)
  if found > 1 then return nil end
  local is_new, is_nothing_set = is_let_in(names, id)
  if not is_new then return nil end
  if found == 1 then return hand_single(names, queue, id, start, is_nothing_set) end
  local sequence = call('INCR', names.seq)
  call('ZADD', names.ready, start.score, pack(PLACE, now_ms, sequence, id))
  call('SET', key, start.beginning .. pack('>I6I6I6', sequence, now_ms, now_ms) .. sub(entry, AFTER_HEADER))
  call('HINCRBY', names.q, 'bytes', #entry - 16)
  tally_now(names, queue, 'enqueued', 1)
  return {id}
end

local function come_in_plainly()
  return #ARGV == 4 and not brings_slip() and enqueue_single(ARGV[3]) or enqueue_plainly()
end
