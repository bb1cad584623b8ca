-- uses: keys, clock, batch, record, kin, place, tally, ending, attempts, handover
-- What the holder of a lease may report. Token 0 stands for whoever holds it now (dialects without tokens).

-- The record when the caller holds its lease, else nil and the refusal.
local function held(id, token)
  local r = load(id)
  if not r then return nil, missing(id) end
  if is_leased(r) and (token == 0 or token == r.token) then return r end
  if is_ended(r) and token > 0 and token == r.token then return nil, 'already_ended' end
  if token > 0 then return nil, 'stale_lease' end
  return nil, 'wrong_state'
end

-- Ends the lease and puts the job back, to its old place or to another time; that decides between queued and scheduled.
local function put_back(r, ready_at)
  leave(r) -- by the old time: an overdue retake job stands in its lane under it
  r.ready_at = ready_at or r.ready_at
  r.token, r.deadline, r.worker = 0, 0, NOBODY
  r.state = state_by_time(r)
  enter(r)
  save(r)
end

-- Gives a held job back unspent; a requested cancel ends it instead.
local function give_back(r)
  if has(r, 'cancel_requested') then
    tally(r.queue, 'cancelled', 1)
    end_job(r, STATE.cancelled)
    return 'cancelled'
  end
  r.attempt = math.max(0, r.attempt - 1)
  put_back(r)
  return r.state == STATE.queued and 'queued' or 'scheduled'
end

local function finish(id, token, result)
  local r, refused = held(id, token)
  if not r then return refused end
  tally(r.queue, 'run_ms', math.max(0, now_ms - r.started_at))
  local instead = has(r, 'has_members') and hand_over(r)
  if instead then return instead end
  tally(r.queue, 'finished', 1)
  if result ~= '' and (policy_of(r).result_ttl_ms > 0 or is_needed(r)) then
    mark(r, 'has_outcome')
    put(P .. 'o:' .. r.id, result)
  end
  r.progress = 1000000
  end_job(r, STATE.finished)
  return 'ok'
end

-- `then_what`: 'retry' (at now + delay_ms), 'final', or 'cancelled'.
local function fail(id, token, then_what, delay_ms, reason, content)
  local r, refused = held(id, token)
  if not r then return refused end
  log_attempt(r, reason, content)
  if then_what == 'cancelled' or (then_what == 'retry' and has(r, 'cancel_requested')) then
    tally(r.queue, 'cancelled', 1)
    end_job(r, STATE.cancelled)
    return 'cancelled'
  end
  if then_what == 'final' then
    tally(r.queue, 'failed', 1)
    end_job(r, STATE.failed)
    return 'failed'
  end
  tally(r.queue, 'retried', 1)
  put_back(r, now_ms + delay_ms)
  return 'retried'
end
