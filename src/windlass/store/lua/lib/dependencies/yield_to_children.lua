-- uses: keys, batch, record, dependencies, index, counters, ending, attempts, requeued
-- Yield of a parent to its children: it finishes while members have not ended, and waits for them.

-- End a job because of a member. The logged attempt names the member.
local function end_by_member(r, state, member)
  local hex = string.gsub(member, '.', function(byte) return string.format('%02x', string.byte(byte)) end)
  local key = string.gsub(hex, '^(' .. string.rep('.', 8) .. ')(....)(....)(....)', '%1-%2-%3-%4-')
  log_attempt(r, 'member_' .. (state == STATE.failed and 'failed' or 'cancelled'), '\0"' .. key .. '"')
  tally(r.queue, state == STATE.failed and 'failed' or 'cancelled', 1)
  end_job(r, state)
  return state == STATE.failed and 'failed' or 'cancelled'
end

-- Begin the next round: members whose end the parent has seen are removed, and later ends belong to the next round.
local function begin_round(r)
  local was_odd = has(r, 'odd_round')
  if was_odd then unmark(r, 'odd_round') else mark(r, 'odd_round') end
  redis.call('ZREMRANGEBYSCORE', members_key(r.id), DELETED, DELETED)
  local offset = was_odd and ODD_ROUND or 0
  if count_members(r.id, STATE.finished + offset, STATE.finished + offset) > 0
    or count_members(r.id, STATE.cancelled + offset, STATE.cancelled + offset) > 0 then
    begin_step(was_odd and 'f1' or 'f0', r.id)
  end
end

local function become_waiting(r)
  if policy_of(r).expires_at > 0 then forget_expiry(r) end
  leave(r)
  -- It is due when it resumes. A yield is not a failure, so attempts are counted from 0 again.
  r.ready_at, r.attempt = r.started_at, 0
  r.token, r.deadline, r.worker = 0, 0, NOBODY
  r.state = STATE.waiting
  begin_round(r)
  enter(r)
  save(r)
  begin_step('r.', r.id)
end

-- Return the outcome of a job with members that replaces its finish, or nil.
local function hand_over(r)
  if z_pending[members_key(r.id)] then flush() end
  if not is_leased(r) then return 'already_ended' end -- an earlier part of this call has ended it
  local state, member = verdict(r)
  if state then return end_by_member(r, state, member) end
  if pending_members(r.id) == 0 then return nil end
  if has(r, 'cancel_requested') then
    tally(r.queue, 'cancelled', 1)
    end_job(r, STATE.cancelled)
    return 'cancelled'
  end
  become_waiting(r)
  return 'waiting'
end
