-- Dependencies between jobs. A job with members (its children, or the jobs it waits for) lists them in c:<id>. The
-- score of a member is its state, so that members in any set of states are counted and listed without a counter. A
-- child finds its parent through its links. A job that others wait for lists them in d:<id>; the score is the state of
-- which each was last notified: 0 (not ended) or the end state.
-- with: dependencies.propagation
local STATE = require('constants').STATE
local batch = require 'batch'
local record = require 'jobs.record'
local keys = require 'keys'
local script = require 'script'

local dependencies = {}

dependencies.HELD_BACK = 0.5 -- added to the score of a child that its parent still holds back
-- Added when it ended in an odd round. A round lasts from one yield of the parent to the next.
dependencies.ODD_ROUND = 0.25
-- Score of an awaited job that an import or a repair did not find: it blocks until a person decides.
dependencies.DELETED = 0
dependencies.NOT_ENDED = 0 -- score of a dependent that was not notified of an end
local POLICY_FAIL = 1 -- value of on_failure: the first member that fails or is cancelled ends the job

-- pending_checks: ids of waiting jobs to check, in order; also by id: true when waiting members do not count.
-- unclaimed: ids of jobs that may have no dependents left.
-- steps: {kind, id} of steps over many members that this call began.
local is_begun -- the same by kind + id, and by 'd' + id
script.on_start(function()
  dependencies.pending_checks = script.clean(dependencies.pending_checks)
  dependencies.unclaimed = script.clean(dependencies.unclaimed)
  dependencies.steps = script.clean(dependencies.steps)
  is_begun = script.clean(is_begun)
end)

-- Check whether a job's wait is over. The check runs after the next flush, when all members are stored.
function dependencies.check_later(id, ignores_waiting)
  local checks = dependencies.pending_checks
  if checks[id] == nil then checks[#checks + 1] = id end
  checks[id] = ignores_waiting == true and checks[id] ~= false
end

-- Kinds of steps. r. releases held children. f0 and f1 remove members that ended in an even or odd round. After the end
-- of their owner, all members are released: el (it finished), ek (cancel its children), ea (cancel all members), eo (it
-- was deleted). w. checks a waiting job. d0, d6, d7, d8 and dx notify the dependents: not ended, the end state,
-- deleted.
local NOTIFICATIONS = {'d0', 'd6', 'd7', 'd8', 'dx'}

function dependencies.begin_step(kind, id)
  local step = {kind = kind, id = id}
  dependencies.steps[#dependencies.steps + 1] = step
  is_begun[kind .. id] = true
  if string.sub(kind, 1, 1) == 'd' then is_begun['d' .. id] = step end
end

-- Notify the dependents of a job of its state ('x': it was deleted). Only the latest notification counts.
function dependencies.notify_dependents(state, id)
  for _, kind in ipairs(NOTIFICATIONS) do batch.z_remove(keys.steps(), kind .. id) end
  local step = is_begun['d' .. id]
  if not step then return dependencies.begin_step('d' .. state, id) end
  is_begun[step.kind .. id] = nil
  step.kind = 'd' .. state
  is_begun[step.kind .. id] = true
end

function dependencies.end_step(step)
  is_begun[step.kind .. step.id] = nil
  if is_begun['d' .. step.id] == step then is_begun['d' .. step.id] = nil end
end

-- Return whether a step of one of these kinds is pending for this job.
function dependencies.is_unsettled(id, ...)
  for _, kind in ipairs({...}) do
    if is_begun[kind .. id] or redis.call('ZSCORE', keys.steps(), kind .. id) then return true end
  end
  return false
end

function dependencies.is_child_of(job, id) return job.links ~= '' and record.links_of(job).parent == id end

-- Return the parent if it exists and has not ended. The members of an ended parent are released in steps.
function dependencies.parent_of(job)
  if job.links == '' then return nil end
  local id = record.links_of(job).parent
  if id == record.NO_ID then return nil end
  local parent = record.load(id)
  return parent and not record.is_ended(parent) and parent or nil
end

-- Return whether other jobs need its outcome.
function dependencies.is_needed(job) return record.has(job, 'has_dependents') or dependencies.parent_of(job) ~= nil end

function dependencies.ended_score(waiter, state)
  return state + (record.has(waiter, 'odd_round') and dependencies.ODD_ROUND or 0)
end

function dependencies.member_score(owner, job)
  if record.is_ended(job) then return dependencies.ended_score(owner, job.state) end
  -- The scores of ends are above all others: a suspended member counts as one that waits for its time.
  if job.state == STATE.suspended then return STATE.scheduled end
  return job.state + (record.has(job, 'held') and dependencies.HELD_BACK or 0)
end

-- Write a child's state to its parent's list. Other code only removes children from the list.
function dependencies.update_parent(job)
  local parent = dependencies.parent_of(job)
  if parent then batch.z_add(keys.members(parent.id), dependencies.member_score(parent, job), job.id) end
end

-- Notify the parent and the dependents of a job's end.
function dependencies.notify_end(job, ignores_waiting)
  local parent = dependencies.parent_of(job)
  if parent then dependencies.check_later(parent.id, ignores_waiting) end
  if record.has(job, 'has_dependents') then dependencies.notify_dependents(job.state, job.id) end
end

-- Return whether a job that ends keeps its links. A retry then finds the results that it needs, or waits for them
-- again.
local function keeps_links(job, reach)
  return record.has(job, 'awaits_only') and job.state ~= STATE.finished and reach ~= 'all'
end

-- Return whether a job is linked to the jobs that it waits for: it has not ended, or it has kept its links.
function dependencies.is_linked(job) return not record.is_ended(job) or record.has(job, 'has_members') end

-- Release the members of a job that ends. `reach` 'all': its cancel also reaches members that are not its children.
function dependencies.release_members(job, reach)
  if not record.has(job, 'has_members') or keeps_links(job, reach) then return end
  record.unmark(job, 'has_members')
  record.unmark(job, 'odd_round')
  dependencies.begin_step(job.state == STATE.finished and 'el' or reach == 'all' and 'ea' or 'ek', job.id)
end

-- Unlink a job that is removed: its parent forgets it, and its dependents are notified if it has not ended.
function dependencies.unlink(job)
  local parent = dependencies.parent_of(job)
  if parent then
    batch.z_remove(keys.members(parent.id), job.id)
    -- For code that waits for its children, a deleted child has ended.
    if parent.state == STATE.suspended then dependencies.check_later(parent.id) end
  end
  if record.has(job, 'has_members') then dependencies.begin_step(record.is_ended(job) and 'el' or 'eo', job.id) end
  if not record.has(job, 'has_dependents') then return end
  if not record.is_ended(job) then
    dependencies.notify_dependents('x', job.id)
  elseif not dependencies.is_unsettled(job.id, 'd' .. job.state) then
    redis.call('UNLINK', keys.dependents(job.id))
  end
end

-- The length of the links stays the same, so the strings and the payload behind them keep their offsets.
function dependencies.cut_parent(job)
  local at = job.head_bytes - #job.extras - 2 - #job.links
  job.links = record.NO_ID .. string.sub(job.links, 17)
  job.links_read = nil
  job.raw = string.sub(job.raw, 1, at) .. job.links .. string.sub(job.raw, at + #job.links + 1)
  if not batch.values[keys.job(job.id)] then redis.call('SETRANGE', keys.job(job.id), at, job.links) end
  record.save(job)
end

function dependencies.count_members(id, low, high) return redis.call('ZCOUNT', keys.members(id), low, high) end

-- Return the number of members that have not ended, as of the last flush.
function dependencies.count_pending(id)
  return dependencies.count_members(id, STATE.scheduled, '(' .. STATE.finished)
end

-- Return the number of members that keep a waiting job waiting, including awaited jobs that were not found.
function dependencies.count_blockers(id, ignores_waiting)
  local all = dependencies.count_members(id, '-inf', '(' .. STATE.finished)
  if not ignores_waiting or dependencies.is_unsettled(id, 'r.') then return all end
  return all - dependencies.count_members(id, STATE.waiting, '(' .. STATE.dispatched)
end

local function fails_with_members(job)
  return record.links_of(job).on_failure == POLICY_FAIL and record.has(job, 'has_members')
end

-- Return the end state that the members impose on a job with the policy `fail`, and the member; nil: none.
function dependencies.imposed_end(job)
  if not fails_with_members(job) then return nil end
  for _, state in ipairs({STATE.failed, STATE.cancelled}) do
    local id = redis.call('ZRANGEBYSCORE', keys.members(job.id), state, '(' .. (state + 1), 'LIMIT', 0, 1)[1]
    if id then return state, id end
  end
  return nil
end

local MEMBERS_READ = 1000 -- as many as a job may wait for
local function find_imposing(job)
  if not fails_with_members(job) then return {} end
  return redis.call('ZRANGEBYSCORE', keys.members(job.id), STATE.failed, '+inf', 'LIMIT', 0, MEMBERS_READ)
end

-- Return the failed and cancelled members with a record that impose an end on a job.
function dependencies.find_culprits(job)
  local found = {}
  for _, id in ipairs(find_imposing(job)) do
    if record.load(id) then found[#found + 1] = id end
  end
  return found
end

-- Cut the links of an ended job to the members that would end it again. All at once: a step that is left for later
-- would meet the children of its next run.
function dependencies.drop_culprits(job)
  for _, id in ipairs(find_imposing(job)) do
    batch.z_remove(keys.members(job.id), id)
    batch.z_remove(keys.dependents(id), job.id)
    dependencies.unclaimed[#dependencies.unclaimed + 1] = id
  end
end

return dependencies
