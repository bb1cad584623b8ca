-- uses: keys, clock, batch, record, limits, blocked_lanes, index, counters, ending, attempts, reports
-- Effects of time: scheduled jobs that are due, and expired leases. take handles both itself and waits for no
-- background loop.

-- Set a queue's timer to the next instant in its indexes, or remove it.
local function reset_timer(kind, queue, ...)
  local following = math.huge
  for _, index in ipairs({...}) do
    local first = redis.call('ZRANGE', queue_key(index, queue), 0, 0, 'WITHSCORES')
    following = math.min(following, tonumber(first[2] or math.huge))
  end
  if following < math.huge then
    redis.call('ZADD', P .. 'timers:' .. kind, following, queue)
    return following
  end
  redis.call('ZREM', P .. 'timers:' .. kind, queue)
  return nil
end

local function due_ids(index, queue, most)
  return redis.call('ZRANGEBYSCORE', queue_key(index, queue), '-inf', now_ms, 'LIMIT', 0, most)
end

local function promote(queue, most)
  local ids = due_ids('scheduled', queue, most)
  for _, id in ipairs(ids) do
    local r = load(id)
    if r then
      leave(r)
      r.state = STATE.queued
      enter(r)
      save(r)
    else
      z_drop(queue_key('scheduled', queue), id)
    end
  end
  flush()
  open_rates(queue)
  return #ids, reset_timer('due', queue, 'scheduled', 'rates')
end

local function is_timed_out(r)
  local timeout_ms = policy_of(r).timeout_ms
  return r.state == STATE.running and timeout_ms > 0 and r.started_at + timeout_ms <= now_ms
end

-- End an expired lease. (The recoverer decides execution timeouts, in Python.)
local function lose_lease(r)
  local is_unspent = r.state == STATE.dispatched and not has(r, 'dispatch_counts')
  if has(r, 'cancel_requested') then
    log_attempt(r, 'lease_expired', '')
    tally(r.queue, 'cancelled', 1)
    end_job(r, STATE.cancelled)
  elseif is_unspent then
    r.attempt = r.attempt - 1
    put_back(r)
  elseif has(r, 'retake') and r.state == STATE.running then
    mark(r, 'retakeable')
    if r.links ~= '' then free_limits(r) end
    r.ready_at = r.deadline
    enter_lane(r)
    enter_running(r)
    save(r)
  elseif policy_of(r).max_attempts > 0 and r.attempt >= policy_of(r).max_attempts then
    log_attempt(r, 'lease_expired', '')
    tally(r.queue, 'failed', 1)
    end_job(r, STATE.failed)
  else
    log_attempt(r, 'lease_expired', '')
    tally(r.queue, 'recovered', 1)
    put_back(r)
  end
end

local function return_overdue(queue, most)
  local lost, timed_out = 0, 0
  for _, id in ipairs(due_ids('running', queue, most)) do
    local r = load(id)
    if not r then
      z_drop(queue_key('running', queue), id)
    elseif is_timed_out(r) then
      timed_out = timed_out + 1
    else
      lose_lease(r)
      lost = lost + 1
    end
  end
  flush()
  return lost, timed_out
end

local DUE_PER_TAKE = 200

-- Bring a queue up to date, in a bounded step. Returns the next instant at which something is due in it.
local function settle_due(queue)
  local overdue = tonumber(redis.call('ZSCORE', P .. 'timers:lease', queue) or math.huge)
  if overdue <= now_ms then
    return_overdue(queue, DUE_PER_TAKE)
    overdue = reset_timer('lease', queue, 'running') or math.huge
  end
  -- After the leases, because a job that comes back may be due only later.
  local due = tonumber(redis.call('ZSCORE', P .. 'timers:due', queue) or math.huge)
  if due <= now_ms then
    local _, following = promote(queue, DUE_PER_TAKE)
    due = following or math.huge
  end
  -- Anything that is still due needs more than one step, or the recoverer. A waiting taker must not spin on it.
  if due <= now_ms then due = now_ms + 10 end
  if overdue <= now_ms then overdue = now_ms + 1000 end
  return math.min(due, overdue)
end
