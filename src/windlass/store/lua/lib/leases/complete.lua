-- uses: keys, clock, batch, record, note, dependencies, index, counters, unique, events, ending, attempts, requeued, yield_to_children, amend
-- End of a run with content from the caller: guards, then finish, fail or run again.

local function refused_conclusion(r, terms)
  if terms.guard > 0 and terms.guard ~= r.revision then return 'revision_conflict' end
  if has(r, 'joins') then return 'wrong_state' end
  local parent = terms.if_parent_waits and parent_of(r)
  if parent and parent.state ~= STATE.waiting then return 'parent_state' end
  if r.state == STATE.waiting and is_unsettled(r.id, 'f0', 'f1') then return 'unsettled' end
  return nil
end

-- The record must not be in an index whose key depends on the changed fields, or must enter it again.
local function adopt(r, content)
  local payload = content.codec ~= '' and content.payload or payload_of(r)
  amend(r, content)
  if content.unique ~= '' and content.unique ~= r.unique then
    let_unique_go(r)
    r.unique = content.unique
    hold_unique(r)
  end
  return payload
end

-- `content.run_at` is set. Ended members are removed, unless they are kept for the next run.
local function go_again(r, content, keeps_members)
  if is_ended(r) then
    local answer = revive(r, r.revision, content.limits or links_of(r).limits)
    if answer ~= 'queued' then return answer end
  end
  leave(r)
  r.state, r.progress = STATE.queued, 0 -- from here on it holds none of its limits
  r.token, r.deadline, r.worker = 0, 0, NOBODY
  unmark(r, 'cancel_requested')
  unmark(r, 'held')
  local payload = adopt(r, content)
  r.state = state_by_time(r)
  if has(r, 'has_members') and not keeps_members then begin_round(r) end
  drop_expiry(r)
  enter(r)
  rewrite(r, payload)
  drop_note(r)
  return 'again'
end

local function call_off_instead(r)
  tally(r.queue, 'cancelled', 1)
  end_job(r, STATE.cancelled)
  return 'cancelled'
end

local function write_content(r, content)
  content.run_at, content.attempt = '', ''
  if content.name .. content.unique .. content.priority .. content.rule .. content.codec == '' then return end
  local is_pending, is_retakeable = r.state <= STATE.waiting, has(r, 'retakeable')
  if is_pending then leave(r) elseif is_retakeable then leave_lane(r) end
  local payload = adopt(r, content)
  if is_pending then enter(r) elseif is_retakeable then enter_lane(r) end
  rewrite(r, payload)
end

-- A job that has already ended, in whatever state, becomes finished.
local function end_well(r, ran_ms)
  tally_finished(r.queue, ran_ms)
  if is_ended(r) then
    leave(r)
    r.state = STATE.finished
    announce_state(r)
    come_to_rest(r)
  else
    r.progress = 1000000
    end_job(r, STATE.finished)
  end
  return 'finished'
end

local function end_badly(r, reason)
  log_attempt(r, reason, '')
  tally(r.queue, 'failed', 1)
  end_job(r, STATE.failed)
  return 'failed'
end

local function finish_with(r, content)
  local run_at = content.run_at
  write_content(r, content)
  local ran_ms = is_leased(r) and math.max(0, now_ms - r.started_at) or nil
  if ran_ms then tally(r.queue, 'run_ms', ran_ms) end
  local instead = is_leased(r) and has(r, 'has_members') and hand_over(r)
  if instead then return instead end
  if run_at == '' then return end_well(r, ran_ms) end
  if has(r, 'cancel_requested') then return call_off_instead(r) end
  tally_finished(r.queue, ran_ms)
  return go_again(r, {name = '', unique = '', priority = '', run_at = run_at, attempt = 0, rule = '', codec = ''})
end
