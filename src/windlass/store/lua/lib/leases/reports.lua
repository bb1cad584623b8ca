-- uses: keys, clock, batch, record, note, repeat_rule, dependencies, index, counters, ending, attempts, requeued, yield_to_children
-- Reports of lease holders. Token 0 stands for the current holder (dialects without tokens).

-- Return the record if the caller holds its lease, else nil and the refusal.
local function held(id, token)
  local r = load(id)
  if not r then return nil, missing(id) end
  if is_leased(r) and (token == 0 or token == r.token) then return r end
  if is_ended(r) and token > 0 and token == r.token then return nil, 'already_ended' end
  if token > 0 then return nil, 'stale_lease' end
  return nil, 'wrong_state'
end

-- End the lease and put the job back, to its old position or to another time, which decides between queued and
-- scheduled.
local function put_back(r, ready_at)
  leave(r) -- with the old time, under which an overdue retake job is in its lane
  r.ready_at = ready_at or r.ready_at
  r.token, r.deadline, r.worker = 0, 0, NOBODY
  r.state = state_by_time(r)
  enter(r)
  save(r)
end

-- Give a leased job back without a spent attempt. A requested cancel ends it instead.
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

-- Begin the next run of a repeating job: attempts from 0, the same id and payload. Its expiry was for the first run.
local function run_again(r, at)
  leave(r)
  r.ready_at, r.attempt, r.progress = at, 0, 0
  drop_note(r)
  r.token, r.deadline, r.worker = 0, 0, NOBODY
  r.state = state_by_time(r)
  if has(r, 'has_members') then begin_round(r) end
  drop_expiry(r)
  local _, rule = repeat_of(r)
  set_repeat(r, at, rule)
  enter(r)
  rewrite(r, payload_of(r))
end

local function go_on(r, then_at, ran_ms)
  if then_at ~= 'never' then
    tally_finished(r.queue, ran_ms)
    run_again(r, tonumber(then_at))
  else
    log_attempt(r, 'repeat_out_of_range', '')
    tally(r.queue, 'failed', 1)
    end_job(r, STATE.failed)
  end
  return 'ok'
end

local function is_to_repeat(r, then_at) return has(r, 'repeats') and then_at ~= 'end' and not has(r, 'cancel_requested') end

-- Return what the caller needs to compute the next run of a finished repeating job; nil: nothing.
local function question(r, then_at, revision)
  if not is_to_repeat(r, then_at) or (then_at ~= '' and revision == r.revision) then return nil end
  local planned_at, rule = repeat_of(r)
  return {rule, planned_at, r.started_at, now_ms, r.revision}
end

-- A finish as its caller packs it: id, token (0: the current holder's), revision from which the next run was computed,
-- that run, and the result with its codec ('': none).
local FINISH = '>c16I6I4Bc0'
local function read_finish(item)
  local id, token, revision, then_at, at = struct.unpack(FINISH, item)
  return id, token, string.sub(item, at), then_at, revision
end

-- `then_at`: '' if the next run was not computed yet; 'end': there is none; 'never': the rule has no further instant;
-- else the instant of the next run, computed from the record of this revision. If the next run must be computed first,
-- nothing changes.
local function finish(id, token, result, then_at, revision)
  local r, refused = held(id, token)
  if not r then return refused end
  local instead = has(r, 'has_members') and hand_over(r)
  local asked = not instead and question(r, then_at, revision)
  if asked then return asked end
  local ran_ms = math.max(0, now_ms - r.started_at)
  tally(r.queue, 'run_ms', ran_ms)
  if instead then return instead end
  if is_to_repeat(r, then_at) then return go_on(r, then_at, ran_ms) end
  tally_finished(r.queue, ran_ms)
  if result ~= '' and (policy_of(r).result_ttl_ms > 0 or is_needed(r)) then
    mark(r, 'has_outcome')
    put(P .. 'o:' .. r.id, result)
  end
  r.progress = 1000000
  end_job(r, STATE.finished, {result = result})
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

-- Leases that are unknown to their holder: a call granted them, and its answer was lost.
local SETTLED_MS = 2000 -- the answer with a younger lease may still be in transit
local UNCLAIMED_MOST = 100 -- per holder and call; the next call finds the rest
local NOTED_BYTES = 22 -- an id, and the instant of the first heartbeat that missed it

-- Return {id, token, ...} of running leases of the holder whose ids are not in `known` (16 bytes each). Dispatched jobs
-- are left out, because they return by themselves unless they are accepted. So are expired leases.
local function unclaimed_leases(holder, known)
  local most = #known / 16 + UNCLAIMED_MOST
  local ids = redis.call('ZRANGEBYSCORE', P .. 'wj:' .. holder, '-inf', now_ms - SETTLED_MS, 'LIMIT', 0, most)
  local found, is_known = {}, {}
  if #ids == 0 then return found end
  for at = 1, #known, 16 do is_known[string.sub(known, at, at + 15)] = true end
  for _, id in ipairs(ids) do
    if #found == 2 * UNCLAIMED_MOST then break end
    local r = not is_known[id] and load(id)
    if r and r.state == STATE.running and r.worker == holder and not has(r, 'retakeable') then
      found[#found + 1] = id
      found[#found + 1] = r.token
    end
  end
  return found
end

-- Return {id = instant as stored, ...}.
local function read_noted(noted)
  local since = {}
  for at = 1, #(noted or ''), NOTED_BYTES do
    since[string.sub(noted, at, at + 15)] = string.sub(noted, at + 16, at + NOTED_BYTES - 1)
  end
  return since
end

-- Store with a worker the leases that its heartbeats miss, for the doctor. Writes nothing while none is missed.
local function note_unclaimed(worker, noted, found)
  local key, since, parts = P .. 'w:' .. worker, read_noted(noted), {}
  if #found == 0 then
    if noted then redis.call('HDEL', key, 'unclaimed') end
    return
  end
  for i = 1, #found, 2 do parts[#parts + 1] = found[i] .. (since[found[i]] or struct.pack('>I6', now_ms)) end
  redis.call('HSET', key, 'unclaimed', table.concat(parts))
end
