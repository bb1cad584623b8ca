-- uses: keys, record, wakeups, index, counters, events, ending, attempts
-- How a job that has not ended is cancelled: one that waits ends at once; one that runs is asked to stop, durably.
local function tell_worker(r)
  if r.worker == NOBODY then return end
  local bell = redis.call('HGET', P .. 'w:' .. r.worker, 'bell')
  if bell and bell ~= '' then strike(bell, 'C' .. r.id) end
end

-- `spares_running`: one that runs is left alone, or ends at once when others may take it over.
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
  -- A group has no work of its own: to cancel it is to cancel all that it joins.
  end_job(r, STATE.cancelled, {reach = has(r, 'joins') and 'all' or nil, ignores_waiting = ignores_waiting})
  return 'cancelled'
end

-- A failed job that is called off after all: whoever needs its outcome sees it as cancelled.
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
