-- uses: keys, record, wakeups, index, counters, events, ending, attempts
-- Cancel of a job that has not ended: without a lease it ends at once; with a lease it gets a durable request to stop.
local function tell_worker(r)
  if r.worker == NOBODY then return end
  local bell = redis.call('HGET', P .. 'w:' .. r.worker, 'bell')
  if bell and bell ~= '' then strike(bell, 'C' .. r.id) end
end

-- `spares_running`: a leased job is left alone; a retake job ends at once instead.
local function cancel_job(r, reason, ignores_waiting, spares_running)
  if is_leased(r) and spares_running and not has(r, 'retake') then return 'wrong_state' end
  if is_leased(r) and not spares_running and not has(r, 'retakeable') then
    mark(r, 'cancel_requested')
    save(r)
    tell_worker(r)
    return 'requested'
  end
  log_attempt(r, reason, '')
  tally(r.queue, 'cancelled', 1)
  -- A group has no work of its own: its cancel reaches all of its members.
  end_job(r, STATE.cancelled, {reach = has(r, 'joins') and 'all' or nil, ignores_waiting = ignores_waiting})
  return 'cancelled'
end

-- Cancel a failed job: jobs that need its outcome see it as cancelled.
local function call_off(r, ignores_waiting)
  leave(r)
  r.state = STATE.cancelled
  announce_state(r)
  come_to_rest(r, ignores_waiting)
  return 'cancelled'
end

local function cancel(id, reason, counts_waiting, even_failed, spares_running)
  local r = load(id)
  if not r then return missing(id) end
  if r.state == STATE.failed and even_failed == '1' and not has(r, 'in_history') then
    return call_off(r, counts_waiting ~= '1')
  end
  if is_ended(r) then return 'already_ended' end
  return cancel_job(r, reason, counts_waiting ~= '1', spares_running == '1')
end
