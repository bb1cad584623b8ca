-- Restore of exported entries. A job with a parent or members stays in `restoring` until all jobs are restored, because
-- only then are its members and awaited jobs known (relink.lua). Until then a placeholder among its members keeps it
-- waiting.
local STATE = require('constants').STATE
local batch = require 'batch'
local dependencies = require 'dependencies.dependencies'
local relink = require 'dependencies.relink'
local flow_record = require 'flows.flow_record'
local flow_repair = require 'flows.flow_repair'
local ended_ids = require 'jobs.ended_ids'
local ending = require 'jobs.ending'
local index = require 'jobs.index'
local job_tags = require 'jobs.job_tags'
local record = require 'jobs.record'
local tombstones = require 'jobs.tombstones'
local unique_keys = require 'jobs.unique_keys'
local keys = require 'keys'
local namespace_format = require 'namespace_format'
local numbers = require 'numbers'
local pending_callbacks = require 'pending_callbacks'
local configuration = require 'queues.configuration'
local queue_index = require 'queues.queue_index'
local schedules = require 'schedules'
local script = require 'script'

local restore_entries = {}

local PLACEMENT = {name_lanes = true, aging_ms = true, fair_share = true}
local highest_sequence
script.on_start(function() highest_sequence = 0 end)

function restore_entries.raise_sequence()
  local known = tonumber(redis.call('GET', keys.sequence()) or 0)
  if highest_sequence > known then redis.call('SET', keys.sequence(), highest_sequence) end
end

local function list_queue(queue)
  local config = configuration.of(queue)
  if config.is_known then return end
  redis.call('HINCRBY', keys.queue(queue), 'bytes', 0)
  redis.call('SADD', keys.queues(), queue)
  config.is_known = true
end

local function holds_unique(job)
  if job.unique == '' then return false end
  return not record.is_ended(job) or (record.has(job, 'unique_while_kept') and not record.has(job, 'in_history'))
end

local function refusal_of(job, body)
  local known = record.load(job.id)
  if known then
    return known.fingerprint == job.fingerprint and known.created_at == job.created_at and 'existing' or 'id_conflict'
  end
  if ended_ids.has(job.id) then return 'already_ended' end
  if not body.is_shared and holds_unique(job) and unique_keys.oldest_holder(job) then return 'unique_conflict' end
  return nil
end

local function restore_durable(job, durable)
  if record.has(job, 'needs_steps') then namespace_format.require_steps() end
  for field, value in pairs(durable.fields) do redis.call('HSET', keys.durable(job.id), field, value) end
  for position, entry in ipairs(durable.stream) do
    redis.call('XADD', keys.stream(job.id), position .. '-0', 'e', entry)
  end
end

local function restore_belongings(job, body)
  if #body.attempts > 0 then
    record.mark(job, 'has_attempts')
    redis.call('RPUSH', keys.attempts(job.id), unpack(body.attempts))
  end
  if #body.logs > 0 then
    record.mark(job, 'has_logs')
    redis.call('RPUSH', keys.log(job.id), unpack(body.logs))
  end
  if body.result ~= '' then
    record.mark(job, 'has_outcome')
    batch.set(keys.result(job.id), body.result)
  end
  if body.durable then restore_durable(job, body.durable) end
  if body.removed_at > 0 then batch.z_add(keys.retention(), body.removed_at, job.id) end
  if holds_unique(job) then unique_keys.hold(job) end
  job_tags.enter(job, job.created_at)
  queue_index.note_fields(job)
end

local function restore_dependencies(job, after)
  local is_child = job.links ~= '' and record.links_of(job).parent ~= record.NO_ID
  if not is_child and not record.has(job, 'has_members') then return end
  redis.call('ZADD', keys.restoring(), relink.LINKING, job.id)
  if not record.has(job, 'has_members') then return end
  if #after > 0 then record.mark(job, 'awaits_only') end -- linking its children unmarks it
  if job.state == STATE.waiting then batch.z_add(keys.members(job.id), dependencies.DELETED, record.NO_ID) end
  for at = 1, #after, 16 do batch.z_add(keys.members(job.id), dependencies.DELETED, string.sub(after, at, at + 15)) end
end

local function restore_counts(job)
  list_queue(job.queue)
  if not record.is_ended(job) then
    batch.increment(keys.queue(job.queue), 'bytes', record.total_bytes(job))
  elseif record.has(job, 'in_history') then
    batch.increment(keys.queue(job.queue), 'history_bytes_now', record.total_bytes(job))
    ending.trim_wanted[job.queue] = (ending.trim_wanted[job.queue] or 0) + 1
  end
  highest_sequence = math.max(highest_sequence, job.sequence)
  numbers.raise(numbers.number_in(job.id) or 0)
end

restore_entries.RESTORE = {}

-- body: record, attempts, logs, result, removed_at (0: never), is_shared (other jobs hold its unique key too), after
-- (ids of jobs it waits for), durable (nil: none)
function restore_entries.RESTORE.j(id, body)
  local job = record.parse(id, body.record)
  local refused = refusal_of(job, body)
  if refused then return refused end
  record.loaded[id] = job
  job.announced = nil -- announce it to followers
  restore_belongings(job, body)
  restore_dependencies(job, body.after)
  index.enter(job)
  record.write(job)
  flow_record.restore(job, body.after)
  restore_counts(job)
  return 'added'
end

-- body: list ('owed' or 'given_up'), at, fields
function restore_entries.RESTORE.b(callback, body)
  if redis.call('EXISTS', keys.callback(callback)) == 1 then return 'existing' end
  for field, value in pairs(body.fields) do redis.call('HSET', keys.callback(callback), field, value) end
  if body.list == 'owed' then
    pending_callbacks.list(callback, body.fields.to, body.at)
  else
    pending_callbacks.list_given_up(callback, body.at)
  end
  local number = struct.unpack('>I6', callback, 17)
  local last = tonumber(redis.call('GET', keys.callback_number()) or 0)
  if number > last then redis.call('SET', keys.callback_number(), number) end
  pending_callbacks.has_new = true
  return 'added'
end

-- body: fields as stored, next_at, jobs (newest first)
function restore_entries.RESTORE.s(name, body)
  local known = redis.call('HGET', keys.schedule(name), 'definition')
  if known then return known == body.fields.definition and 'existing' or 'id_conflict' end
  for field, value in pairs(body.fields) do redis.call('HSET', keys.schedule(name), field, value) end
  if #body.jobs > 0 then redis.call('RPUSH', keys.schedule_jobs(name), unpack(body.jobs)) end
  redis.call('ZADD', keys.schedule_names(), 0, name)
  schedules.plan(name, body.next_at)
  return 'added'
end

local function has_other_values(key, wanted)
  for field, value in pairs(wanted) do
    local known = redis.call('HGET', key, field)
    if known and known ~= value then return true end
  end
  return false
end

local function add_missing(key, wanted)
  local added = 0
  for field, value in pairs(wanted) do
    if redis.call('HSETNX', key, field, value) == 1 then
      added = added + 1
      if PLACEMENT[field] then redis.call('HSET', key, 'relane', 'ready 0') end
    end
  end
  return added
end

-- body: fields, paused (since + reason; '': not paused), pauses, weights. A field or weight with another stored value
-- is a conflict.
function restore_entries.RESTORE.q(queue, body)
  local key, weights, pauses = keys.queue(queue), keys.weights(queue), keys.pauses(queue)
  if has_other_values(key, body.fields) or has_other_values(weights, body.weights) then return 'id_conflict' end
  local is_new = redis.call('EXISTS', key) == 0
  list_queue(queue)
  local was_indexed = queue_index.is_set(queue)
  local added = add_missing(key, body.fields) + add_missing(weights, body.weights) + add_missing(pauses, body.pauses)
  if body.paused ~= '' then added = added + redis.call('HSETNX', key, 'paused', body.paused) end
  if next(body.pauses) then redis.call('HSET', key, 'pauses', redis.call('HLEN', pauses)) end
  if queue_index.is_set(queue) and not was_indexed then queue_index.note_change(queue) end
  return (is_new or added > 0) and 'added' or 'existing'
end

-- body: queue, until_at
function restore_entries.RESTORE.t(id, body)
  if redis.call('ZSCORE', keys.tombstones(), id) then return 'existing' end
  tombstones.add(id, body.queue, body.until_at)
  return 'added'
end

-- body: name, created_at, steps (id, node, ended; see flow_record.lua)
function restore_entries.RESTORE.f(id, body) return flow_repair.restore(id, body) end

return restore_entries
