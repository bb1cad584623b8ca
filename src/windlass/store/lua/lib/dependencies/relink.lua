-- uses: keys, batch, record, dependencies, ending, link_dependencies, propagation
-- Links of imported jobs, in two phases: all jobs are linked, then waits that are over end.
local LINKING, SETTLING = 1, 2 -- scores in `restoring`
local LINKED_PER_CALL = 2000
local not_known
at_start[#at_start + 1] = function() not_known = 0 end
local function unknown_awaited() return not_known end

-- Link a child to its parent. Without a parent the child becomes independent.
local function link_to_parent(r)
  if r.links == '' or links_of(r).parent == NOBODY then return end
  local parent = parent_of(r)
  if parent then
    mark_once(parent, 'has_members')
    return follow(r)
  end
  cut_parent(r)
  if is_ended(r) then retire(r, false) elseif has(r, 'held') then let_child_start(r) end
end

-- Awaited jobs are listed as deleted so far. A job that ended recently and was removed counts as finished.
local function link_to_awaited(r)
  local ids = redis.call('ZRANGEBYSCORE', members_key(r.id), DELETED, DELETED)
  for _, id in ipairs(ids) do
    local member = id ~= NOBODY and load(id)
    if member then
      wait_for(r, {member})
      if is_ended(member) then z_add(members_key(r.id), ended_score(r, member.state), id) end
    elseif id ~= NOBODY and missing(id) == 'already_ended' then
      z_drop(members_key(r.id), id)
    elseif id ~= NOBODY then
      not_known = not_known + 1
    end
  end
  return #ids
end

local function link_restored(r)
  link_to_parent(r)
  if is_ended(r) or not has(r, 'has_members') then
    redis.call('ZREM', P .. 'restoring', r.id)
    return 1
  end
  redis.call('ZADD', P .. 'restoring', SETTLING, r.id)
  return 1 + link_to_awaited(r)
end

-- Process one job of `restoring`; return how many jobs were read. A waiting job has yielded before, so the children
-- that it held may start.
local function reunite(id, phase)
  local r = load(id)
  if not r then
    redis.call('ZREM', P .. 'restoring', id)
    return 1
  end
  if phase == LINKING then return link_restored(r) end
  redis.call('ZREM', P .. 'restoring', id)
  z_drop(members_key(id), NOBODY)
  if r.state == STATE.waiting then
    begin_step('r.', id)
    look_at(id)
  end
  return 1
end
