-- Links of imported jobs, in two phases: all jobs are linked, then waits that are over end.
local STATE = require('constants').STATE
local batch = require 'batch'
local dependencies = require 'dependencies.dependencies'
local link_dependencies = require 'dependencies.link_dependencies'
local propagation = require 'dependencies.propagation'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local keys = require 'keys'
local script = require 'script'

local relink = {}

relink.LINKING = 1 -- score in `restoring`
local SETTLING = 2 -- next score
relink.LINKED_PER_CALL = 2000
local unknown -- awaited jobs that were not found in this call
script.on_start(function() unknown = 0 end)
function relink.unknown_awaited() return unknown end

-- Link a child to its parent. Without a parent the child becomes independent.
local function link_to_parent(job)
  if job.links == '' or record.links_of(job).parent == record.NO_ID then return end
  local parent = dependencies.parent_of(job)
  if parent then
    link_dependencies.add_child(parent)
    return dependencies.update_parent(job)
  end
  dependencies.cut_parent(job)
  if record.is_ended(job) then
    ending.retire(job, false)
  elseif record.has(job, 'held') then
    propagation.start_child(job)
  end
end

-- Awaited jobs are listed as deleted so far. A job that ended recently and was removed counts as finished.
local function link_to_awaited(job)
  local ids = redis.call('ZRANGEBYSCORE', keys.members(job.id), dependencies.DELETED, dependencies.DELETED)
  for _, id in ipairs(ids) do
    local member = id ~= record.NO_ID and record.load(id)
    if member then
      link_dependencies.wait_for(job, {member})
      if record.is_ended(member) then
        batch.z_add(keys.members(job.id), dependencies.ended_score(job, member.state), id)
      end
    elseif id ~= record.NO_ID and ending.missing(id) == 'already_ended' then
      batch.z_remove(keys.members(job.id), id)
    elseif id ~= record.NO_ID then
      unknown = unknown + 1
    end
  end
  return #ids
end

local function link_restored(job)
  link_to_parent(job)
  if not record.has(job, 'has_members') then
    redis.call('ZREM', keys.restoring(), job.id)
    return 1
  end
  redis.call('ZADD', keys.restoring(), SETTLING, job.id)
  return 1 + link_to_awaited(job)
end

-- Process one job of `restoring`; return how many jobs were read. A waiting job has yielded before, so the children
-- that it held may start.
function relink.link(id, phase)
  local job = record.load(id)
  if not job then
    redis.call('ZREM', keys.restoring(), id)
    return 1
  end
  if phase == relink.LINKING then return link_restored(job) end
  redis.call('ZREM', keys.restoring(), id)
  batch.z_remove(keys.members(id), record.NO_ID)
  if job.state == STATE.waiting then
    dependencies.begin_step('r.', id)
    dependencies.check_later(id)
  end
  return 1
end

return relink
