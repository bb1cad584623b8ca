-- Links of a new job: its parent, and the jobs it waits for.
local STATE = require('constants').STATE
local batch = require 'batch'
local dependencies = require 'dependencies.dependencies'
local ending = require 'jobs.ending'
local index = require 'jobs.index'
local record = require 'jobs.record'
local keys = require 'keys'
local script = require 'script'

local link_dependencies = {}

-- Return a refusal, or nil and the parent.
function link_dependencies.find_parent(job)
  if job.links == '' then return nil end
  local id = record.links_of(job).parent
  if id == record.NO_ID then return nil end
  local parent = record.load(id)
  if not parent then return ending.missing(id) == 'already_ended' and 'parent_state' or 'unknown_parent' end
  if not record.is_leased(parent) and parent.state ~= STATE.waiting then return 'parent_state' end
  return nil, parent
end

-- Return a refusal, or nil and the records of the jobs to wait for. A job that ended recently and was removed counts as
-- finished.
local function find_awaited(after)
  local awaited = {}
  for at = 1, #after, 16 do
    local id = string.sub(after, at, at + 15)
    local member = record.load(id)
    if member then
      awaited[#awaited + 1] = member
    elseif ending.missing(id) == 'unknown_job' then
      return 'unknown_member'
    end
  end
  return nil, awaited
end

function link_dependencies.mark_once(job, flag)
  if record.has(job, flag) then return end
  record.mark(job, flag)
  record.save(job)
end

-- A parent has members that are not only awaited.
function link_dependencies.add_child(parent)
  if record.has(parent, 'has_members') and not record.has(parent, 'awaits_only') then return end
  record.mark(parent, 'has_members')
  record.unmark(parent, 'awaits_only')
  record.save(parent)
end

function link_dependencies.wait_for(job, awaited)
  record.mark(job, 'has_members')
  for _, member in ipairs(awaited) do
    -- Only the end of a member is notified: until then it counts as queued.
    local notified_state, score = dependencies.NOT_ENDED, STATE.queued
    if record.is_ended(member) then
      notified_state, score = member.state, member.state
      ending.claim(member)
    end
    link_dependencies.mark_once(member, 'has_dependents')
    batch.z_add(keys.members(job.id), score, member.id)
    batch.z_add(keys.dependents(member.id), notified_state, job.id)
  end
end

-- Return a refusal, or nil and the dependencies of a new job (nil: none). Writes nothing.
function link_dependencies.find(job, after)
  if job.links == '' and after == '' and record.is_unflagged(job) then return nil end
  local refusal, parent = link_dependencies.find_parent(job)
  if refusal then return refusal end
  local unknown, awaited = find_awaited(after)
  return unknown, {parent = parent, awaited = awaited, awaits = after ~= ''}
end

local may_be_over -- ids of new jobs whose wait may end in this call
script.on_start(function() may_be_over = {} end)

function link_dependencies.link(job, links)
  local is_held = record.has(job, 'held') and links.parent and record.is_leased(links.parent)
  if not is_held then record.unmark(job, 'held') end
  local awaits = record.has(job, 'joins') or links.awaits
  if is_held or awaits then
    job.state = STATE.waiting
    if awaits then
      dependencies.check_later(job.id)
      may_be_over[job.id] = true
    end
  else
    job.state = index.state_by_time(job)
  end
  if #links.awaited > 0 then
    record.mark(job, 'awaits_only')
    link_dependencies.wait_for(job, links.awaited)
  end
  if links.parent then link_dependencies.add_child(links.parent) end
end

link_dependencies.STATUS_OF = {'scheduled', 'queued', 'waiting'} -- by state

-- Correct the answers for jobs whose wait ended in the same call.
function link_dependencies.correct_waits(answers)
  for _, answer in ipairs(answers) do
    if may_be_over[answer[2]] and answer[1] == 'waiting' then
      local job = record.load(answer[2])
      answer[1] = job and link_dependencies.STATUS_OF[job.state] or 'ended'
    end
  end
end

return link_dependencies
