-- uses: keys, batch, record, dependencies, index, ending
-- Links of a new job: its parent, and the jobs it waits for.

-- Return a refusal, or nil and the parent.
local function find_parent(r)
  if r.links == '' then return nil end
  local id = links_of(r).parent
  if id == NOBODY then return nil end
  local parent = load(id)
  if not parent then return missing(id) == 'already_ended' and 'parent_state' or 'unknown_parent' end
  if not is_leased(parent) and parent.state ~= STATE.waiting then return 'parent_state' end
  return nil, parent
end

-- Return a refusal, or nil and the records of the jobs to wait for. A job that ended recently and was removed counts as
-- finished.
local function find_awaited(after)
  local awaited = {}
  for at = 1, #after, 16 do
    local id = string.sub(after, at, at + 15)
    local member = load(id)
    if member then
      awaited[#awaited + 1] = member
    elseif missing(id) == 'unknown_job' then
      return 'unknown_member'
    end
  end
  return nil, awaited
end

local function mark_once(r, flag)
  if has(r, flag) then return end
  mark(r, flag)
  save(r)
end

local function wait_for(r, awaited)
  mark(r, 'has_members')
  for _, member in ipairs(awaited) do
    -- Only the end of a member is notified: until then it counts as queued.
    local told, score = NOT_ENDED, STATE.queued
    if is_ended(member) then
      told, score = member.state, member.state
      claim(member)
    end
    mark_once(member, 'has_dependents')
    z_add(members_key(r.id), score, member.id)
    z_add(dependents_key(member.id), told, r.id)
  end
end

-- Return a refusal, or nil and the dependencies of a new job (nil: none). Writes nothing.
local function find_kin(r, after)
  if r.links == '' and after == '' and is_plain(r) then return nil end
  local refusal, parent = find_parent(r)
  if refusal then return refusal end
  local unknown, awaited = find_awaited(after)
  return unknown, {parent = parent, awaited = awaited, awaits = after ~= ''}
end

local may_be_over -- ids of new jobs whose wait may end in this call
at_start[#at_start + 1] = function() may_be_over = {} end

local function join_in(r, kin)
  if has(r, 'held') and not (kin.parent and is_leased(kin.parent)) then unmark(r, 'held') end
  if has(r, 'held') or has(r, 'joins') or kin.awaits then
    r.state = STATE.waiting
    if has(r, 'joins') or kin.awaits then
      look_at(r.id)
      may_be_over[r.id] = true
    end
  else
    r.state = state_by_time(r)
  end
  if #kin.awaited > 0 then wait_for(r, kin.awaited) end
  if kin.parent then mark_once(kin.parent, 'has_members') end
end

local STATUS_OF = {'scheduled', 'queued', 'waiting'} -- by state

-- Correct the answers for jobs whose wait ended in the same call.
local function correct_waits(answers)
  for _, answer in ipairs(answers) do
    if may_be_over[answer[2]] and answer[1] == 'waiting' then
      local r = load(answer[2])
      answer[1] = r and STATUS_OF[r.state] or 'ended'
    end
  end
end
