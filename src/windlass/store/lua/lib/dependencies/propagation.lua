-- Effects of a job's change on its members and dependents, in bounded steps after each flush. Steps that a call does
-- not complete stay in `work`. Idle takers and the scheduler continue them.
local STATE = require('constants').STATE
local batch = require 'batch'
local clock = require 'clock'
local dependencies = require 'dependencies.dependencies'
local yield_to_children = require 'dependencies.yield_to_children'
local waits = require 'durable.waits'
local cancellation = require 'jobs.cancellation'
local counters = require 'jobs.counters'
local ending = require 'jobs.ending'
local index = require 'jobs.index'
local record = require 'jobs.record'
local requeue = require 'jobs.requeue'
local keys = require 'keys'
local script = require 'script'
local wakeups = require 'workers.wakeups'

local propagation = {}

local STEP_BUDGET = 200 -- members handled by one call
local CHECK_BUDGET = 1200 -- waiting jobs checked by one call: one for each of its items, and more
local STEPS_READ = 8

local members_left, checks_left -- budgets of this call
local to_wake -- queues whose takers continue the steps that this call leaves
script.on_start(function() members_left, checks_left, to_wake = STEP_BUDGET, CHECK_BUDGET, {} end)

-- End the wait of a job: a group finishes, any other job becomes queued or scheduled.
function propagation.end_wait(job)
  if record.has(job, 'joins') then
    counters.add_finished(job.queue, nil)
    ending.end_job(job, STATE.finished)
    return 'finished'
  end
  index.leave(job)
  record.unmark(job, 'held')
  job.state = index.state_by_time(job)
  index.enter(job)
  record.save(job)
  return job.state == STATE.queued and 'queued' or 'scheduled'
end

-- A job that ended because of a member waits again as soon as none of its members imposes an end.
local function settle(id, ignores_waiting)
  local job = record.load(id)
  if not job then return end
  if record.has(job, 'ended_by_member') and not dependencies.imposed_end(job) then requeue.wait_again(job) end
  if job.state == STATE.suspended then return waits.check_children(job) end
  if job.state ~= STATE.waiting then return end
  local state, member = dependencies.imposed_end(job)
  if state then return yield_to_children.end_by_member(job, state, member) end
  if record.has(job, 'held') then return end
  if record.has(job, 'has_members') and dependencies.count_blockers(id, ignores_waiting) > 0 then return end
  -- The next round must not begin before the members of the last one are removed.
  if not dependencies.is_unsettled(id, 'f0', 'f1') then propagation.end_wait(job) end
end

function propagation.start_child(job)
  record.unmark(job, 'held')
  if record.has(job, 'has_members') or record.has(job, 'joins') then
    dependencies.update_parent(job)
    record.save(job)
    dependencies.check_later(job.id)
  else
    propagation.end_wait(job)
  end
end

-- Release one member of a job that has ended, was deleted, or has read the member's outcome.
function propagation.release_member(owner_id, id, kind)
  local job = record.load(id)
  local is_child = job and dependencies.is_child_of(job, owner_id)
  if is_child then
    dependencies.cut_parent(job)
  else
    -- Also if it was removed: the notification of its dependents may still be pending.
    batch.z_remove(keys.dependents(id), owner_id)
    dependencies.unclaimed[#dependencies.unclaimed + 1] = id
  end
  if not job then return end
  if record.is_ended(job) then
    if is_child then ending.retire(job, kind == 'el') end
  elseif kind == 'ea' or (kind == 'ek' and is_child) then
    cancellation.cancel_record(job, 'parent_ended')
  elseif is_child and record.has(job, 'held') then
    propagation.start_child(job)
  end
end

local function release_members(owner_id, kind, ids)
  for _, id in ipairs(ids) do
    batch.z_remove(keys.members(owner_id), id)
    propagation.release_member(owner_id, id, kind)
  end
  return #ids
end

local function members_of_score(id, score, most)
  if most <= 0 then return {} end
  return redis.call('ZRANGEBYSCORE', keys.members(id), score, score, 'LIMIT', 0, most)
end

-- Steps by the first letter of their kind. Each step handles at most `most` members and returns how many it handled;
-- fewer means that it is done.
local STEPS = {}

function STEPS.e(id, kind, most)
  return release_members(id, kind, redis.call('ZRANGE', keys.members(id), 0, most - 1))
end

function STEPS.f(id, kind, most)
  local offset = kind == 'f1' and dependencies.ODD_ROUND or 0
  local done = release_members(id, 'el', members_of_score(id, STATE.finished + offset, most))
  done = done + release_members(id, 'el', members_of_score(id, STATE.cancelled + offset, most - done))
  if done < most then dependencies.check_later(id) end
  return done
end

function STEPS.r(id, _, most)
  local owner = record.load(id)
  -- The owner was put back into its queue: it will yield again.
  if not owner or owner.state ~= STATE.waiting then return 0 end
  local ids = members_of_score(id, STATE.waiting + dependencies.HELD_BACK, most)
  for _, child_id in ipairs(ids) do
    local child = record.load(child_id)
    if child then propagation.start_child(child) else batch.z_remove(keys.members(id), child_id) end
  end
  return #ids
end

function STEPS.w(id)
  dependencies.check_later(id)
  return 0
end

-- Notify a dependent of a job's state. nil: the job was deleted and never ends; its dependents treat that as a cancel.
local function notify(job, id, state, waiter_id)
  local waiter = record.load(waiter_id)
  local is_linked = waiter and dependencies.is_linked(waiter)
  if job and is_linked then
    batch.z_add(keys.dependents(id), state, waiter_id)
  else
    batch.z_remove(keys.dependents(id), waiter_id)
  end
  if not is_linked then
    dependencies.unclaimed[#dependencies.unclaimed + 1] = id
  elseif state == dependencies.NOT_ENDED then
    batch.z_add(keys.members(waiter_id), STATE.queued, id)
    if record.is_ended(waiter) then dependencies.check_later(waiter_id) end
  else
    batch.z_add(keys.members(waiter_id), dependencies.ended_score(waiter, state or STATE.cancelled), id)
    dependencies.check_later(waiter_id)
  end
end

-- Return dependents that were last notified of another state than this one.
local function find_unnotified(key, state, most)
  local ids = redis.call('ZRANGEBYSCORE', key, '-inf', '(' .. state, 'LIMIT', 0, most)
  if #ids == most then return ids end
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', key, '(' .. state, '+inf', 'LIMIT', 0, most - #ids)) do
    ids[#ids + 1] = id
  end
  return ids
end

function STEPS.d(id, kind, most)
  local job, key, state = record.load(id), keys.dependents(id), tonumber(string.sub(kind, 2))
  local waiter_ids = job and find_unnotified(key, state, most) or redis.call('ZRANGE', key, 0, most - 1)
  for _, waiter_id in ipairs(waiter_ids) do notify(job, id, state, waiter_id) end
  return #waiter_ids
end

local function leave_for_later(kind, id)
  batch.z_add(keys.steps(), clock.now_ms, kind .. id)
  local job = record.load(id)
  to_wake[''] = true
  if job then to_wake[job.queue] = true end
end

local function take_step(step)
  local most = members_left
  if most <= 0 then
    leave_for_later(step.kind, step.id)
    return dependencies.end_step(step)
  end
  local done = STEPS[string.sub(step.kind, 1, 1)](step.id, step.kind, most)
  -- Checks have their own budget. A step that found nothing costs 1, so that no step is free.
  members_left = members_left - math.max(done, 1)
  if done >= most then dependencies.steps[#dependencies.steps + 1] = step else dependencies.end_step(step) end
end

-- Apply the job's own retention if no other job needs it any longer.
function propagation.release_claim(id)
  local job = record.load(id)
  if not job or not record.has(job, 'has_dependents') or redis.call('EXISTS', keys.dependents(id)) == 1 then return end
  record.unmark(job, 'has_dependents')
  record.save(job)
  if record.is_ended(job) then ending.retire(job, false) end
end

batch.on_settle(function()
  if #dependencies.steps == 0 and #dependencies.unclaimed == 0 and #dependencies.pending_checks == 0 then
    local queues = to_wake
    to_wake = {}
    for queue in pairs(queues) do wakeups.wake(queue, nil) end
    return false
  end
  local checks, steps, unclaimed = dependencies.pending_checks, dependencies.steps, dependencies.unclaimed
  dependencies.pending_checks, dependencies.steps, dependencies.unclaimed = {}, {}, {}
  for _, id in ipairs(unclaimed) do propagation.release_claim(id) end
  for _, step in ipairs(steps) do take_step(step) end
  for _, id in ipairs(checks) do
    if checks_left > 0 then settle(id, checks[id]) else leave_for_later('w.', id) end
    checks_left = checks_left - 1
  end
  return true
end)

-- Continue the steps that earlier calls left. Returns whether there were any, and whether some are left.
function propagation.continue_steps()
  local items = redis.call('ZRANGE', keys.steps(), 0, STEPS_READ - 1)
  if #items == 0 then return false, false end
  for _, item in ipairs(items) do
    batch.z_remove(keys.steps(), item)
    dependencies.begin_step(string.sub(item, 1, 2), string.sub(item, 3))
  end
  batch.flush()
  return true, redis.call('EXISTS', keys.steps()) == 1
end

return propagation
