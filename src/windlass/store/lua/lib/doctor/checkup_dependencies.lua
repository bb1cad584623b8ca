-- uses: keys, batch, record, dependencies, index, ending, link_dependencies, propagation, findings, expected_index
-- Checks of dependencies: lists against records. Pending steps (`work`) are not an error.
local function is_parting(id) return is_unsettled(id, 'el', 'ek', 'ea', 'eo') end
local function is_telling(id) return is_unsettled(id, 'd0', 'd6', 'd7', 'd8', 'dx') end

local function alive(id)
  local r = safe_load(id)
  return r and not is_ended(r) and r or nil
end

local function score_in(key, member)
  local score = redis.call('ZSCORE', key, member)
  return score and tonumber(score)
end

local function check_child(r)
  local parent_id = links_of(r).parent
  if parent_id == NOBODY then return end
  local parent = alive(parent_id)
  if not parent then
    if not is_parting(parent_id) then
      find('link_to_nobody', job_example(r.id), function() let_go(parent_id, r.id, 'el') end)
    end
    return
  end
  local score, expected = score_in(members_key(parent_id), r.id), score_among_members(parent, r)
  local is_right = score and (is_ended(r) and math.floor(score) == r.state or score == expected)
  if is_right then return end
  find('wrong_member', job_example(r.id), function()
    follow(r)
    mark_once(parent, 'has_members')
    look_at(parent_id)
  end)
end

local function is_held_in_vain(r)
  local parent = alive(links_of(r).parent)
  return parent and parent.state == STATE.waiting and not is_unsettled(parent.id, 'r.')
end

-- A deleted child has not ended, and neither has an awaited job that an import did not find: a person must wake the
-- waiting job.
local function check_wait(r)
  if r.state ~= STATE.waiting or is_unsettled(r.id, 'w.', 'r.', 'f0', 'f1') then return end
  if has(r, 'held') then
    if is_held_in_vain(r) then find('wait_is_over', job_example(r.id), function() let_child_start(r) end) end
  elseif verdict(r) or (blockers(r.id) == 0 and redis.call('EXISTS', members_key(r.id)) == 1) then
    find('wait_is_over', job_example(r.id), function() look_at(r.id) end)
  elseif blockers(r.id) == 0 or count_members(r.id, DELETED, DELETED) > 0 then
    find('waits_forever', job_example(r.id))
  end
end

-- An import links its jobs at the end.
local function is_restoring(id) return redis.call('ZSCORE', P .. 'restoring', id) end

local function check_kin(r)
  if is_restoring(r.id) then return end
  if r.links ~= '' then check_child(r) end
  check_wait(r)
end

-- Check the list as a whole; return whether its entries should be checked.
local function check_members_list(id)
  local owner, is_unreadable = safe_load(id)
  if is_unreadable or is_parting(id) or is_restoring(id) then return false end
  if not owner or is_ended(owner) then
    find('orphan', job_example(id), function() begin_step(owner and 'el' or 'eo', id) end)
    return false
  end
  if not has(owner, 'has_members') then
    find('belongings_unmarked', job_example(id), function() mark_once(owner, 'has_members') end)
  end
  return true
end

-- Restore a lost list entry, so that no job starts before the jobs it waits for have ended.
local function wait_again(owner_id, r)
  local told = is_ended(r) and r.state or NOT_ENDED
  local owner = load(owner_id)
  mark_once(r, 'has_dependents')
  z_add(dependents_key(r.id), told, owner_id)
  z_add(members_key(owner_id), told == NOT_ENDED and STATE.queued or ended_score(owner, told), r.id)
  if told ~= NOT_ENDED then claim(r) end
  look_at(owner_id)
end

local function check_member(owner_id, id, score)
  local r, is_unreadable = safe_load(id)
  if is_unreadable or (r and is_child_of(r, owner_id)) or score_in(dependents_key(id), owner_id) then return end
  if r then
    find('wrong_member', job_example(id), function() wait_again(owner_id, r) end)
  elseif score > DELETED and score < STATE.finished and not is_telling(id) then
    find('wrong_member', job_example(id), function() z_add(members_key(owner_id), DELETED, id) end)
  end
end

local function check_dependents_list(id)
  local r, is_unreadable = safe_load(id)
  if is_unreadable or is_telling(id) then return false end
  if not r then
    find('orphan', job_example(id), function() begin_step('dx', id) end)
    return false
  end
  if not has(r, 'has_dependents') then
    find('belongings_unmarked', job_example(id), function() mark_once(r, 'has_dependents') end)
  end
  return true
end

local function check_dependent(id, waiter_id, told)
  local r, waiter = safe_load(id), alive(waiter_id)
  if not r then return end
  if not waiter then
    if is_parting(waiter_id) then return end
    return find('wrong_member', job_example(waiter_id), function()
      z_drop(dependents_key(id), waiter_id)
      unclaimed[#unclaimed + 1] = id
    end)
  end
  local score = score_in(members_key(waiter_id), id)
  local heard = score and (score >= STATE.finished and math.floor(score) or NOT_ENDED)
  local is_so = is_ended(r) and r.state or NOT_ENDED
  if heard == told and told == is_so then return end
  find('wrong_member', job_example(waiter_id), function()
    z_add(members_key(waiter_id), is_so == NOT_ENDED and STATE.queued or ended_score(waiter, is_so), id)
    z_add(dependents_key(id), is_so, waiter_id)
    mark_once(waiter, 'has_members')
    look_at(waiter_id)
  end)
end
