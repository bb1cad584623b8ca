-- Index entries that a job must have, derived from its record alone. Checks compare with them, and repairs write them.
local STATE = require('constants').STATE
local batch = require 'batch'
local index = require 'jobs.index'
local job_tags = require 'jobs.job_tags'
local record = require 'jobs.record'
local unique_keys = require 'jobs.unique_keys'
local keys = require 'keys'
local caps = require 'limits.caps'
local limits = require 'limits.limits'
local configuration = require 'queues.configuration'
local lanes = require 'queues.lanes'
local wakeups = require 'workers.wakeups'

local expected_index = {}

-- Return the record and false; nil and false if there is none; nil and true if it cannot be read.
function expected_index.safe_load(id)
  local is_read, job = pcall(record.load, id)
  if is_read then return job, false end
  return nil, true
end

function expected_index.id_of_entry(entry) return #entry == 16 and entry or lanes.id_in_member(entry) end

local function is_in_lane(job) return job.state == STATE.queued or record.has(job, 'retakeable') end

local function holds_unique(job)
  if job.unique == '' then return false end
  return not record.is_ended(job) or (record.has(job, 'unique_while_kept') and not record.has(job, 'in_history'))
end

local function index_of_state(job)
  if job.state == STATE.scheduled then return 'scheduled', job.ready_at end
  if job.state == STATE.waiting then return 'waiting', job.created_at end
  if job.state == STATE.suspended then return 'suspended', index.wakes_at(job) end
  if record.is_leased(job) then return 'running', index.overdue_at(job) end
  return record.has(job, 'in_history') and 'history' or keys.STATE_INDEX[job.state], job.ended_at
end

local function add_lane(entries, job)
  local lane, config = lanes.of(job), configuration.of(job.queue)
  local entry = {member = lanes.member_of(job), score = lanes.score_of(job, config)}
  -- Jobs that are not relaned yet still have their old score.
  if config.is_relaning then entry.score = nil end
  entries[keys.lane(job.queue, lane)] = entry
  if lane ~= '' then entries[keys.laned(job.queue)] = entry end
end

local function add_leased(entries, job)
  local is_retakeable = record.has(job, 'retakeable')
  if job.worker ~= record.NO_ID then
    -- A worker that went silent no longer lists jobs that others may take over.
    entries[keys.worker_jobs(job.worker)] = {member = job.id, score = job.started_at, may_miss = is_retakeable}
  end
  if is_retakeable then return end
  limits.each(record.links_of(job).limits, function(limit_key)
    entries[keys.holders(limit_key)] = {member = job.id, score = job.started_at}
  end)
end

-- Return by key: the member, its score (nil: any), and whether it may be missing.
function expected_index.entries_of(job)
  local entries = {}
  if job.state ~= STATE.queued then
    local kind, score = index_of_state(job)
    entries[keys.of_queue(kind, job.queue)] = {member = job.id, score = score}
  end
  if is_in_lane(job) then add_lane(entries, job) end
  if record.is_leased(job) then add_leased(entries, job) end
  if not record.is_ended(job) then
    caps.each_key(job, function(limit_key)
      entries[keys.limited_jobs(limit_key)] = {member = job.id, score = job.state}
    end)
  end
  if index.may_expire(job) then entries[keys.expiry()] = {member = job.id, score = record.policy_of(job).expires_at} end
  if holds_unique(job) then entries[unique_keys.key_of(job)] = {member = job.id, score = job.sequence} end
  job_tags.each_key(job, function(key) entries[key] = {member = job.id, score = job.created_at} end)
  return entries
end

function expected_index.is_present(key, entry)
  local score = redis.call('ZSCORE', key, entry.member)
  if not score then return entry.may_miss end
  return entry.score == nil or tonumber(score) == entry.score
end

local function wake_for(job)
  if job.state == STATE.scheduled then index.note_timer('due', job.queue, job.ready_at) end
  if job.state == STATE.suspended then index.note_timer('due', job.queue, index.wakes_at(job)) end
  if record.is_leased(job) then index.note_timer('lease', job.queue, index.overdue_at(job)) end
  if is_in_lane(job) then wakeups.note_takeable(job) end
end

function expected_index.restore(job)
  if is_in_lane(job) and lanes.of(job) ~= '' then lanes.touch(job.queue, lanes.of(job), true) end
  for key, entry in pairs(expected_index.entries_of(job)) do
    if not expected_index.is_present(key, entry) then
      local score = entry.score or lanes.score_of(job, configuration.of(job.queue))
      batch.z_add(key, index.score_of(score), entry.member)
    end
  end
  if record.is_leased(job) and not record.has(job, 'retakeable') then
    limits.each(record.links_of(job).limits, function(limit_key) limits.held_now[limit_key] = true end)
  end
  if not record.is_ended(job) then caps.each_key(job, function(limit_key) caps.met[limit_key] = true end) end
  wake_for(job)
end

return expected_index
