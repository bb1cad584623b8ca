-- uses: keys, batch, record, note, config, fair, limits, blocked_lanes, wakeups, index, counters, ending, attempts, reports, expiry, scan, select
-- Leases on the general path: a job gets a token, a deadline and a holder. Three files grant leases themselves: the
-- fast path (plain_take.lua), direct handoff (plain_hand.lua), and push/redirect.lua.
local ROUNDS = 4 -- per call, in which expired or used-up heads are dropped and replaced
local LOOKED_AT_BEHIND = 64 -- heads, once some were dropped: more such heads may follow

local function load_whole(ids)
  local loaded, keys = {}, {}
  for i, id in ipairs(ids) do keys[i] = job_key(id) end
  for i, raw in ipairs(read_whole(keys)) do
    if raw then loaded[#loaded + 1] = decode(ids[i], raw) end
  end
  return loaded
end

local used_up -- jobs that had no attempt left
local started_before -- {id, instant, ...} of jobs that were leased before
at_start[#at_start + 1] = function() used_up, started_before = 0, {} end
local function used_up_now() return used_up end
local function started_before_now() return started_before end

-- Return false if the job must not start. It is ended instead.
local function may_start(r)
  local policy = policy_of(r)
  if may_expire(r) and policy.expires_at <= now_ms then
    log_attempt(r, 'expired', '')
    tally(r.queue, 'failed', 1)
    end_job(r, STATE.failed)
    return false
  end
  if r.state == STATE.running and policy.max_attempts > 0 and r.attempt >= policy.max_attempts then
    used_up = used_up + 1
    log_attempt(r, 'lease_expired', '')
    tally(r.queue, 'failed', 1)
    end_job(r, STATE.failed)
    return false
  end
  return true
end

local function lease_ms_of(r, terms)
  if terms.lease_ms > 0 then return terms.lease_ms end
  local own = policy_of(r).lease_ms
  if own > 0 then return own end
  return config_of(r.queue).lease_ms
end

-- Return the deadline of a lease that is granted or extended now; 0: none.
local function deadline_of(r, terms)
  local lease_ms = lease_ms_of(r, terms)
  if lease_ms >= FOREVER_MS then return 0 end
  if not has(r, 'whole_seconds') then return now_ms + lease_ms end
  -- The shortest lease (1 ms) stands for no lease: its deadline must not be in the next second.
  local deadline = lease_ms > 1 and now_ms + lease_ms or now_ms
  return deadline - deadline % 1000
end

-- Accept a dispatched job: its lease begins. Returns its deadline as text.
local function accept(id, token, lease_ms)
  local r, refused = held(id, token)
  if not r then return refused end
  if r.state == STATE.dispatched then
    leave(r)
    r.state = STATE.running
    r.started_at = now_ms
    r.deadline = deadline_of(r, {lease_ms = lease_ms})
    enter(r)
    save(r)
  end
  return string.format('%.0f', r.deadline)
end

-- Extend a lease. Returns a refusal, or nil.
local function renew(r, lease_ms)
  if r.state ~= STATE.running or r.deadline == 0 then return nil end
  if has(r, 'retakeable') then
    -- Other jobs could use its place under the limits while it was overdue.
    if full_limit(r.queue, links_of(r).limits) then return 'stale_lease' end
    leave_lane(r)
    unmark(r, 'retakeable')
  end
  local deadline = deadline_of(r, {lease_ms = lease_ms})
  r.deadline = deadline > 0 and math.max(r.deadline, deadline) or 0
  save(r)
  enter_running(r)
  return nil
end

local function lease(r, token, terms)
  local waited_ms = math.max(0, now_ms - r.ready_at)
  if r.started_at > 0 then
    local size = #started_before
    started_before[size + 1], started_before[size + 2] = r.id, r.started_at
  end
  leave(r)
  r.token = token
  r.worker = terms.next_worker and terms.next_worker() or terms.worker
  r.attempt = r.attempt + 1
  r.told = nil -- announce a new lease even if the job was running
  r.started_at = now_ms
  r.progress = 0
  drop_note(r)
  if terms.accept_ms > 0 then
    r.state = STATE.dispatched
    r.deadline = now_ms + terms.accept_ms
    if terms.dispatch_counts then mark(r, 'dispatch_counts') end
  else
    r.state = STATE.running
    r.deadline = deadline_of(r, terms)
  end
  enter(r)
  save(r)
  if r.links ~= '' then spend_tokens(r) end
  if is_fair(r.queue) then charge(r.queue, r.lane) end
  return waited_ms
end

local function lease_all(queue, chosen, terms, taken)
  if #chosen == 0 then return end
  local last_token = redis.call('INCRBY', P .. 'token', #chosen)
  local waited_ms = 0
  for i, r in ipairs(chosen) do
    local one_ms = lease(r, last_token - #chosen + i, terms)
    waited_ms = waited_ms + one_ms
    tally_taken(queue, one_ms)
    taken[#taken + 1] = r
  end
  tally(queue, 'wait_ms', waited_ms)
end

-- Offer the rest of a full batch to the next waiter, if this taker could have taken it.
local function offer_the_rest(queue, filter)
  if redis.call('EXISTS', queue_key('waiters', queue)) == 0 then return end
  local id = pick(queue, filter, 1, 0)[1]
  local r = id and load(id)
  if r then ring(queue, r) end
end

local function choose(loaded, most)
  local chosen, dropped = {}, 0
  for _, r in ipairs(loaded) do
    if #chosen == most then break end
    if may_start(r) then table.insert(chosen, r) else dropped = dropped + 1 end
  end
  return chosen, dropped
end

-- Add up to `most` jobs of a queue to `taken`. Returns the next due instant, and where a long scan resumes.
local function take_from(queue, filter, most, terms, from, taken)
  local following = settle_due(queue)
  local wanted = #taken + most
  local looked_at, resume, is_cut = most, nil, false
  for _ = 1, ROUNDS do
    local ids
    ids, resume, is_cut = pick(queue, filter, looked_at, math.max(from, 0))
    if #ids == 0 then break end
    local chosen, dropped = choose(load_whole(ids), wanted - #taken)
    lease_all(queue, chosen, terms, taken)
    flush()
    if (dropped == 0 and not is_cut) or #taken == wanted then break end
    looked_at, resume = math.max(wanted - #taken, dropped > 0 and LOOKED_AT_BEHIND or 0), FROM_THE_START
  end
  if #taken == wanted or is_cut then offer_the_rest(queue, filter) end
  return math.min(following, rate_due[queue] or math.huge), resume
end
