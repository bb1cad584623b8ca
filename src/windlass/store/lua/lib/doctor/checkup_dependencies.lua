-- Checks of dependencies: lists against records. Pending steps (`work`) are not an error.
local STATE = require('constants').STATE
local batch = require 'batch'
local dependencies = require 'dependencies.dependencies'
local link_dependencies = require 'dependencies.link_dependencies'
local propagation = require 'dependencies.propagation'
local expected_index = require 'doctor.expected_index'
local findings = require 'doctor.findings'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local keys = require 'keys'

local checkup_dependencies = {}

local function is_releasing(id) return dependencies.is_unsettled(id, 'el', 'ek', 'ea', 'eo') end
local function is_notifying(id) return dependencies.is_unsettled(id, 'd0', 'd6', 'd7', 'd8', 'dx') end

local function alive(id)
  local job = expected_index.safe_load(id)
  return job and not record.is_ended(job) and job or nil
end

local function score_in(key, member)
  local score = redis.call('ZSCORE', key, member)
  return score and tonumber(score)
end

local function check_child(job)
  local parent_id = record.links_of(job).parent
  if parent_id == record.NO_ID then return end
  local parent = alive(parent_id)
  if not parent then
    if not is_releasing(parent_id) then
      findings.report_job('link_to_nobody', job.id, function() propagation.release_member(parent_id, job.id, 'el') end)
    end
    return
  end
  local score, expected = score_in(keys.members(parent_id), job.id), dependencies.member_score(parent, job)
  local is_right = score and (record.is_ended(job) and math.floor(score) == job.state or score == expected)
  if is_right then return end
  findings.report_job('wrong_member', job.id, function()
    dependencies.update_parent(job)
    link_dependencies.add_child(parent)
    dependencies.check_later(parent_id)
  end)
end

local function is_held_in_vain(job)
  local parent = alive(record.links_of(job).parent)
  return parent and parent.state == STATE.waiting and not dependencies.is_unsettled(parent.id, 'r.')
end

-- A deleted child has not ended, and neither has an awaited job that an import did not find: a person must wake the
-- waiting job.
local function check_wait(job)
  local id = job.id
  if job.state ~= STATE.waiting or dependencies.is_unsettled(id, 'w.', 'r.', 'f0', 'f1') then return end
  if record.has(job, 'held') then
    if not is_held_in_vain(job) then return end
    return findings.report_job('wait_is_over', id, function() propagation.start_child(job) end)
  end
  local is_unblocked = dependencies.count_blockers(id) == 0
  if dependencies.imposed_end(job) or (is_unblocked and redis.call('EXISTS', keys.members(id)) == 1) then
    findings.report_job('wait_is_over', id, function() dependencies.check_later(id) end)
  elseif is_unblocked or dependencies.count_members(id, dependencies.DELETED, dependencies.DELETED) > 0 then
    findings.report_job('waits_forever', id)
  end
end

-- An import links its jobs at the end.
local function is_restoring(id) return redis.call('ZSCORE', keys.restoring(), id) end

function checkup_dependencies.check_links(job)
  if is_restoring(job.id) then return end
  if job.links ~= '' then check_child(job) end
  check_wait(job)
end

-- Check the list as a whole; return whether its entries should be checked.
function checkup_dependencies.check_members_list(id)
  local owner, is_unreadable = expected_index.safe_load(id)
  if is_unreadable or is_releasing(id) or is_restoring(id) then return false end
  if not owner or not dependencies.is_linked(owner) then
    findings.report_job('orphan', id, function() dependencies.begin_step(owner and 'el' or 'eo', id) end)
    return false
  end
  if not record.has(owner, 'has_members') then
    findings.report_job('belongings_unmarked', id, function() link_dependencies.mark_once(owner, 'has_members') end)
  end
  return true
end

-- Return the state of which the dependents of a job must have been notified.
local function known_state_of(job) return record.is_ended(job) and job.state or dependencies.NOT_ENDED end

-- Return the score of an awaited job in the list of a waiting job.
local function awaited_score(waiter, known_state)
  if known_state == dependencies.NOT_ENDED then return STATE.queued end
  return dependencies.ended_score(waiter, known_state)
end

-- Restore a lost list entry, so that no job starts before the jobs it waits for have ended.
local function wait_again(owner_id, job)
  local known_state = known_state_of(job)
  local owner = record.load(owner_id)
  link_dependencies.mark_once(job, 'has_dependents')
  batch.z_add(keys.dependents(job.id), known_state, owner_id)
  batch.z_add(keys.members(owner_id), awaited_score(owner, known_state), job.id)
  if known_state ~= dependencies.NOT_ENDED then ending.claim(job) end
  dependencies.check_later(owner_id)
end

function checkup_dependencies.check_member(owner_id, id, score)
  local job, is_unreadable = expected_index.safe_load(id)
  if is_unreadable or (job and dependencies.is_child_of(job, owner_id)) then return end
  if score_in(keys.dependents(id), owner_id) then return end
  if job then
    findings.report_job('wrong_member', id, function() wait_again(owner_id, job) end)
  elseif score > dependencies.DELETED and score < STATE.finished and not is_notifying(id) then
    findings.report_job('wrong_member', id, function()
      batch.z_add(keys.members(owner_id), dependencies.DELETED, id)
    end)
  end
end

function checkup_dependencies.check_dependents_list(id)
  local job, is_unreadable = expected_index.safe_load(id)
  if is_unreadable or is_notifying(id) then return false end
  if not job then
    findings.report_job('orphan', id, function() dependencies.begin_step('dx', id) end)
    return false
  end
  if not record.has(job, 'has_dependents') then
    findings.report_job('belongings_unmarked', id, function() link_dependencies.mark_once(job, 'has_dependents') end)
  end
  return true
end

function checkup_dependencies.check_dependent(id, waiter_id, notified_state)
  local job, waiter = expected_index.safe_load(id), expected_index.safe_load(waiter_id)
  if not job then return end
  if not waiter or not dependencies.is_linked(waiter) then
    if is_releasing(waiter_id) then return end
    return findings.report_job('wrong_member', waiter_id, function()
      batch.z_remove(keys.dependents(id), waiter_id)
      dependencies.unclaimed[#dependencies.unclaimed + 1] = id
    end)
  end
  local score = score_in(keys.members(waiter_id), id)
  local listed_state = score and (score >= STATE.finished and math.floor(score) or dependencies.NOT_ENDED)
  local known_state = known_state_of(job)
  if listed_state == notified_state and notified_state == known_state then return end
  findings.report_job('wrong_member', waiter_id, function()
    batch.z_add(keys.members(waiter_id), awaited_score(waiter, known_state), id)
    batch.z_add(keys.dependents(id), known_state, waiter_id)
    link_dependencies.mark_once(waiter, 'has_members')
    dependencies.check_later(waiter_id)
  end)
end

return checkup_dependencies
