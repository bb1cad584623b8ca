-- uses: keys, clock, batch, record, new_record, tally, ending, plain, plain_enqueue
-- One plain job comes in (plain.lua says what that is): what most callers bring. The same as for many of them, without the
-- lists that these need.

-- Known, and nothing was ever set for it: mostly its bytes are all that is kept of a queue.
local function is_bare(names)
  local found = call('HGETALL', names.q)
  return #found == 2 and found[1] == 'bytes'
end

-- What is most likely in the way is looked at first: somebody waits for it.
local function is_let_in(names, id, key)
  return call('EXISTS', key, names.waiters, names.followed) == 0 and (is_bare(names) or lets_in(names))
    and (call('GET', names.limits_version) or '0') == ARGV[2] and not has_ended(id)
end

local function enqueue_single(entry)
  local format, flags, priority, ready_at, policy, queue, _, lane, others = unpacked(NEW_PLAIN, entry, 17)
  if ARGV[4] ~= '' or format ~= FORMAT or flags > CODEC_BITS or ready_at > 0 or lane > 0 or others > 0
    or not never_expires(policy) then
    return nil
  end
  local names, id = names_of(queue), sub(entry, 1, 16)
  local key = names.job .. id
  if not is_let_in(names, id, key) then return nil end
  local sequence = call('INCR', names.seq)
  call('ZADD', names.ready, priority, pack(PLACE, now_ms, sequence, id))
  call('SET', key, pack(NEW_HEADER, FORMAT, STATE.queued, flags, priority, sequence, now_ms, now_ms) .. sub(entry, AFTER_HEADER))
  call('HINCRBY', names.q, 'bytes', #entry - 16)
  tally_now(names, queue, 'enqueued', 1)
  return {{'queued', id, FIRST_REVISION}}
end

local function come_in_plainly()
  return #ARGV == 4 and enqueue_single(ARGV[3]) or enqueue_plainly()
end
