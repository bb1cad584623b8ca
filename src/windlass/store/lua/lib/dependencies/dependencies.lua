-- uses: keys, batch, record
-- Dependencies between jobs. A job with members (its children, or the jobs it waits for) lists them in c:<id>. The
-- score of a member is its state, so that members in any set of states are counted and listed without a counter. A
-- child finds its parent through its links. A job that others wait for lists them in d:<id>; the score is the state of
-- which each was last notified: 0 (not ended) or the end state.
local HELD_BACK = 0.5 -- added to the score of a child that its parent still holds back
local ODD_ROUND = 0.25 -- added when it ended in an odd round; a round lasts from one yield of the parent to the next
local DELETED = 0 -- score of an awaited job that an import or a repair did not find: it blocks until a person decides
local NOT_ENDED = 0 -- score of a dependent that was not notified of an end
local POLICY_FAIL = 1 -- value of on_failure: the first member that fails or is cancelled ends the job

local looks -- ids of waiting jobs to check, in order; also by id: true when waiting members do not count
local unclaimed -- ids of jobs that may have no dependents left
local steps -- {kind, id}: steps over many members that this call began
local is_begun -- the same by kind + id, and by 'd' + id
at_start[#at_start + 1] = function()
  looks, unclaimed, steps, is_begun = clean(looks), clean(unclaimed), clean(steps), clean(is_begun)
end

local function members_key(id) return P .. 'c:' .. id end
local function dependents_key(id) return P .. 'd:' .. id end

-- Check whether a job's wait is over. The check runs after the next flush, when all members are stored.
local function look_at(id, ignores_waiting)
  if looks[id] == nil then looks[#looks + 1] = id end
  looks[id] = ignores_waiting == true and looks[id] ~= false
end

-- Kinds of steps. r. releases held children. f0 and f1 remove members that ended in an even or odd round. After the end
-- of their owner, all members are released: el (it finished), ek (cancel its children), ea (cancel all members), eo (it
-- was deleted). w. checks a waiting job. d0, d6, d7, d8 and dx notify the dependents: not ended, the end state,
-- deleted.
local TOLD = {'d0', 'd6', 'd7', 'd8', 'dx'}

local function begin_step(kind, id)
  local step = {kind = kind, id = id}
  steps[#steps + 1] = step
  is_begun[kind .. id] = true
  if string.sub(kind, 1, 1) == 'd' then is_begun['d' .. id] = step end
end

-- Notify the dependents of a job. Only the latest notification counts.
local function tell_dependents(told, id)
  for _, kind in ipairs(TOLD) do z_drop(P .. 'work', kind .. id) end
  local step = is_begun['d' .. id]
  if not step then return begin_step('d' .. told, id) end
  is_begun[step.kind .. id] = nil
  step.kind = 'd' .. told
  is_begun[step.kind .. id] = true
end

local function end_step(step)
  is_begun[step.kind .. step.id] = nil
  if is_begun['d' .. step.id] == step then is_begun['d' .. step.id] = nil end
end

-- Return whether a step of one of these kinds is pending for this job.
local function is_unsettled(id, ...)
  for _, kind in ipairs({...}) do
    if is_begun[kind .. id] or redis.call('ZSCORE', P .. 'work', kind .. id) then return true end
  end
  return false
end

local function is_child_of(r, id) return r.links ~= '' and links_of(r).parent == id end

-- Return the parent if it exists and has not ended. The members of an ended parent are released in steps.
local function parent_of(r)
  if r.links == '' then return nil end
  local id = links_of(r).parent
  if id == NOBODY then return nil end
  local parent = load(id)
  return parent and not is_ended(parent) and parent or nil
end

-- Return whether other jobs need its outcome.
local function is_needed(r) return has(r, 'has_dependents') or parent_of(r) ~= nil end

local function ended_score(waiter, state) return state + (has(waiter, 'odd_round') and ODD_ROUND or 0) end

local function score_among_members(owner, r)
  if is_ended(r) then return ended_score(owner, r.state) end
  return r.state + (has(r, 'held') and HELD_BACK or 0)
end

-- Write a child's state to its parent's list. Other code only removes children from the list.
local function follow(r)
  local parent = parent_of(r)
  if parent then z_add(members_key(parent.id), score_among_members(parent, r), r.id) end
end

-- Notify the parent and the dependents of a job's end.
local function report_end(r, ignores_waiting)
  local parent = parent_of(r)
  if parent then look_at(parent.id, ignores_waiting) end
  if has(r, 'has_dependents') then tell_dependents(r.state, r.id) end
end

-- Release the members of a job that ends. `reach` 'all': its cancel also reaches members that are not its children.
local function part_from_members(r, reach)
  if not has(r, 'has_members') then return end
  unmark(r, 'has_members')
  unmark(r, 'odd_round')
  begin_step(r.state == STATE.finished and 'el' or reach == 'all' and 'ea' or 'ek', r.id)
end

-- Unlink a job that is removed: its parent forgets it, and its dependents are notified if it has not ended.
local function leave_kin(r)
  local parent = parent_of(r)
  if parent then z_drop(members_key(parent.id), r.id) end
  if has(r, 'has_members') and not is_ended(r) then begin_step('eo', r.id) end
  if not has(r, 'has_dependents') then return end
  if not is_ended(r) then
    tell_dependents('x', r.id)
  elseif not is_unsettled(r.id, 'd' .. r.state) then
    redis.call('UNLINK', dependents_key(r.id))
  end
end

-- The length of the links stays the same, so the strings and the payload behind them keep their offsets.
local function cut_parent(r)
  local at = r.head_bytes - #r.extras - 2 - #r.links
  r.links = NOBODY .. string.sub(r.links, 17)
  r.links_read = nil
  r.raw = string.sub(r.raw, 1, at) .. r.links .. string.sub(r.raw, at + #r.links + 1)
  if not value_pending[job_key(r.id)] then redis.call('SETRANGE', job_key(r.id), at, r.links) end
  save(r)
end

local function count_members(id, low, high) return redis.call('ZCOUNT', members_key(id), low, high) end

-- Return the number of members that have not ended, as of the last flush.
local function pending_members(id) return count_members(id, STATE.scheduled, '(' .. STATE.finished) end

-- Return the number of members that keep a waiting job waiting, including awaited jobs that were not found.
local function blockers(id, ignores_waiting)
  local all = count_members(id, '-inf', '(' .. STATE.finished)
  if not ignores_waiting or is_unsettled(id, 'r.') then return all end
  return all - count_members(id, STATE.waiting, '(' .. STATE.dispatched)
end

-- Return the end state that the members impose on a job with the policy `fail`, and the member; nil: none.
local function verdict(r)
  if links_of(r).on_failure ~= POLICY_FAIL or not has(r, 'has_members') then return nil end
  for _, state in ipairs({STATE.failed, STATE.cancelled}) do
    local id = redis.call('ZRANGEBYSCORE', members_key(r.id), state, '(' .. (state + 1), 'LIMIT', 0, 1)[1]
    if id then return state, id end
  end
  return nil
end
