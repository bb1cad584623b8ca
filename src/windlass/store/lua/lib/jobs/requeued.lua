-- uses: keys, clock, batch, record, note, limits, caps, dependencies, index, unique
-- Return of an ended job to queued, shared by retry, requeue and complete_with_children.
local function drop_expiry(r)
  local policy = policy_of(r)
  if policy.expires_at == 0 then return end
  r.policy = struct.pack(POLICY, policy.max_attempts, policy.lease_ms, policy.timeout_ms, policy.result_ttl_ms, 0)
  r.policy_read = nil
end

local function forget_expiry(r)
  drop_expiry(r)
  rewrite(r, payload_of(r))
end

-- Limits may have changed since the job ended: it counts against those it matches now.
local function adopt_limits(r, limits)
  if links_of(r).limits == limits then return end
  local payload = payload_of(r)
  change_limits(r, limits)
  rewrite(r, payload)
end

-- `revision`: at which the job was matched against the limits; 0: there never were any.
local function revive(r, revision, limits)
  if has(r, 'joins') then return 'wrong_state' end
  if is_unsettled(r.id, 'el', 'ek', 'ea') then return 'unsettled' end
  local holds_it = has(r, 'unique_while_kept') and not has(r, 'in_history')
  if r.unique ~= '' and not holds_it then
    local holder = oldest_holder(r)
    if holder and holder.id ~= r.id then return 'unique_conflict' end
  end
  if revision ~= r.revision and redis.call('EXISTS', P .. 'limits_version') == 1 then return 'limits_changed' end
  adopt_limits(r, limits)
  leave(r)
  if has(r, 'in_history') then
    unmark(r, 'in_history')
    count(queue_key('q', r.queue), 'history_bytes_now', -r.bytes)
  end
  if has(r, 'has_outcome') then
    remove(P .. 'o:' .. r.id)
    unmark(r, 'has_outcome')
  end
  count(queue_key('q', r.queue), 'bytes', r.bytes)
  r.state, r.attempt, r.progress, r.ended_at = STATE.queued, 0, 0, 0
  r.token, r.worker, r.ready_at = 0, NOBODY, now_ms
  drop_note(r)
  -- An expiry in the past would end the job again before a worker could take it.
  local expires_at = policy_of(r).expires_at
  if expires_at > 0 and expires_at <= now_ms then forget_expiry(r) end
  enter(r)
  save(r)
  hold_unique(r)
  if has(r, 'has_dependents') then tell_dependents(NOT_ENDED, r.id) end
  return 'queued'
end
