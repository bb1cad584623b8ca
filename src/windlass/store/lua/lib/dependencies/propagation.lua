-- uses: keys, clock, batch, record, dependencies, wakeups, index, counters, ending, cancel_job, yield_to_children
-- Effects of a job's change on its members and dependents, in bounded steps after each flush. Steps that a call does
-- not complete stay in `work`. Idle takers and the scheduler continue them.
local STEP_BUDGET = 200 -- members handled by one call
local LOOK_BUDGET = 1200 -- waiting jobs checked by one call: one for each of its items, and more
local WORK_READ = 8

local budget, looks_left, rings
at_start[#at_start + 1] = function() budget, looks_left, rings = STEP_BUDGET, LOOK_BUDGET, {} end

-- End the wait of a job: a group finishes, any other job becomes queued or scheduled.
local function end_wait(r)
  if has(r, 'joins') then
    tally_finished(r.queue, nil)
    end_job(r, STATE.finished)
    return 'finished'
  end
  leave(r)
  unmark(r, 'held')
  r.state = state_by_time(r)
  enter(r)
  save(r)
  return r.state == STATE.queued and 'queued' or 'scheduled'
end

local function settle(id, ignores_waiting)
  local r = load(id)
  if not r or r.state ~= STATE.waiting then return end
  local state, member = verdict(r)
  if state then return end_by_member(r, state, member) end
  if has(r, 'held') or (has(r, 'has_members') and blockers(id, ignores_waiting) > 0) then return end
  -- The next round must not begin before the members of the last one are removed.
  if not is_unsettled(id, 'f0', 'f1') then end_wait(r) end
end

local function let_child_start(r)
  unmark(r, 'held')
  if has(r, 'has_members') or has(r, 'joins') then
    follow(r)
    save(r)
    look_at(r.id)
  else
    end_wait(r)
  end
end

-- Release one member of a job that has ended, was deleted, or has read the member's outcome.
local function let_go(owner_id, id, kind)
  local r = load(id)
  local is_child = r and is_child_of(r, owner_id)
  if is_child then
    cut_parent(r)
  else
    -- Also if it was removed: the notification of its dependents may still be pending.
    z_drop(dependents_key(id), owner_id)
    unclaimed[#unclaimed + 1] = id
  end
  if not r then return end
  if is_ended(r) then
    if is_child then retire(r, kind == 'el') end
  elseif kind == 'ea' or (kind == 'ek' and is_child) then
    cancel_job(r, 'parent_ended')
  elseif is_child and has(r, 'held') then
    let_child_start(r)
  end
end

local function let_all_go(owner_id, kind, ids)
  for _, id in ipairs(ids) do
    z_drop(members_key(owner_id), id)
    let_go(owner_id, id, kind)
  end
  return #ids
end

local function of_score(id, score, most)
  if most <= 0 then return {} end
  return redis.call('ZRANGEBYSCORE', members_key(id), score, score, 'LIMIT', 0, most)
end

-- Steps by the first letter of their kind. Each step handles at most `most` members and returns how many it handled;
-- fewer means that it is done.
local DO = {}

function DO.e(id, kind, most)
  return let_all_go(id, kind, redis.call('ZRANGE', members_key(id), 0, most - 1))
end

function DO.f(id, kind, most)
  local offset = kind == 'f1' and ODD_ROUND or 0
  local done = let_all_go(id, 'el', of_score(id, STATE.finished + offset, most))
  done = done + let_all_go(id, 'el', of_score(id, STATE.cancelled + offset, most - done))
  if done < most then look_at(id) end
  return done
end

function DO.r(id, _, most)
  local owner = load(id)
  -- The owner was put back into its queue: it will yield again.
  if not owner or owner.state ~= STATE.waiting then return 0 end
  local ids = of_score(id, STATE.waiting + HELD_BACK, most)
  for _, child_id in ipairs(ids) do
    local child = load(child_id)
    if child then let_child_start(child) else z_drop(members_key(id), child_id) end
  end
  return #ids
end

function DO.w(id)
  look_at(id)
  return 0
end

local function tell(r, id, told, waiter_id)
  local waiter = load(waiter_id)
  local hears = waiter and not is_ended(waiter)
  if r and hears then z_add(dependents_key(id), told, waiter_id) else z_drop(dependents_key(id), waiter_id) end
  if not hears then
    unclaimed[#unclaimed + 1] = id
    return
  end
  -- A deleted job never ends: its dependents treat that as a cancel.
  local state = told or STATE.cancelled
  z_add(members_key(waiter_id), state == NOT_ENDED and STATE.queued or ended_score(waiter, state), id)
  if state ~= NOT_ENDED then look_at(waiter_id) end
end

function DO.d(id, kind, most)
  local r, key, told = load(id), dependents_key(id), tonumber(string.sub(kind, 2))
  local ids
  if r then
    ids = redis.call('ZRANGEBYSCORE', key, '-inf', '(' .. told, 'LIMIT', 0, most)
    if #ids < most then
      for _, waiter_id in ipairs(redis.call('ZRANGEBYSCORE', key, '(' .. told, '+inf', 'LIMIT', 0, most - #ids)) do
        table.insert(ids, waiter_id)
      end
    end
  else
    ids = redis.call('ZRANGE', key, 0, most - 1)
  end
  for _, waiter_id in ipairs(ids) do tell(r, id, told, waiter_id) end
  return #ids
end

local function leave_for_later(kind, id)
  z_add(P .. 'work', now_ms, kind .. id)
  local r = load(id)
  rings[''] = true
  if r then rings[r.queue] = true end
end

local function take_step(step)
  local most = budget
  if most <= 0 then
    leave_for_later(step.kind, step.id)
    return end_step(step)
  end
  local done = DO[string.sub(step.kind, 1, 1)](step.id, step.kind, most)
  budget = budget - done
  -- Checks have their own budget. A step that found nothing costs 1, so that no step is free.
  if done == 0 then budget = budget - 1 end
  if done >= most then steps[#steps + 1] = step else end_step(step) end
end

-- Apply the job's own retention if no other job needs it any longer.
local function release_claim(id)
  local r = load(id)
  if not r or not has(r, 'has_dependents') or redis.call('EXISTS', dependents_key(id)) == 1 then return end
  unmark(r, 'has_dependents')
  save(r)
  if is_ended(r) then retire(r, false) end
end

consequences[#consequences + 1] = function()
  if #steps == 0 and #unclaimed == 0 and #looks == 0 then
    local rung = rings
    rings = {}
    for queue in pairs(rung) do ring(queue, nil) end
    return false
  end
  local to_look, to_do, to_release = looks, steps, unclaimed
  looks, steps, unclaimed = {}, {}, {}
  for _, id in ipairs(to_release) do release_claim(id) end
  for _, step in ipairs(to_do) do take_step(step) end
  for _, id in ipairs(to_look) do
    if looks_left > 0 then settle(id, to_look[id]) else leave_for_later('w.', id) end
    looks_left = looks_left - 1
  end
  return true
end

-- Continue the steps that earlier calls left. Returns whether there were any, and whether some are left.
local function work_on()
  local items = redis.call('ZRANGE', P .. 'work', 0, WORK_READ - 1)
  if #items == 0 then return false, false end
  for _, item in ipairs(items) do
    z_drop(P .. 'work', item)
    begin_step(string.sub(item, 1, 2), string.sub(item, 3))
  end
  flush()
  return true, redis.call('EXISTS', P .. 'work') == 1
end
