-- End of a job, retention of ended jobs, and their removal.
local DURABLE = require('constants').DURABLE
local STATE = require('constants').STATE
local batch = require 'batch'
local dependencies = require 'dependencies.dependencies'
local durable_state = require 'durable.state'
local events = require 'events'
local flow_record = require 'flows.flow_record'
local end_header = require 'jobs.end_header'
local ended_ids = require 'jobs.ended_ids'
local index = require 'jobs.index'
local job_tags = require 'jobs.job_tags'
local record = require 'jobs.record'
local tombstones = require 'jobs.tombstones'
local unique_keys = require 'jobs.unique_keys'
local keys = require 'keys'
local numbers = require 'numbers'
local pending_callbacks = require 'pending_callbacks'
local configuration = require 'queues.configuration'
local script = require 'script'
local wakeups = require 'workers.wakeups'

local ending = {}

script.on_start(function() ending.trim_wanted = {} end)

-- Return why there is no record of this id.
function ending.missing(id)
  return (record.loaded[id] == false or ended_ids.has(id)) and 'already_ended' or 'unknown_job'
end

local function drop_belongings(job)
  if record.has(job, 'has_attempts') then batch.delete(keys.attempts(job.id)) end
  if record.has(job, 'has_outcome') then batch.delete(keys.result(job.id)) end
  if record.has(job, 'has_logs') then batch.delete(keys.log(job.id)) end
  if record.has(job, 'awaited') then batch.delete(keys.end_waiters(job.id)) end
  if record.has(job, 'has_number') then numbers.forget(job.id) end
  if record.has(job, 'leaves_tombstone') then tombstones.leave(job) end
  if record.has(job, 'in_history') then
    batch.increment(keys.queue(job.queue), 'history_bytes_now', -record.total_bytes(job))
  end
  if record.has(job, 'durable') then
    batch.delete(keys.durable(job.id))
    batch.delete(keys.stream(job.id))
  end
end

-- Remove everything of a job that has left the index of its state.
function ending.remove(job)
  if job.links ~= '' then flow_record.drop(job) end
  batch.delete(keys.job(job.id))
  if job.links ~= '' or not record.is_unflagged(job) then dependencies.unlink(job) end
  if not record.is_unflagged(job) then drop_belongings(job) end
  unique_keys.release(job)
  job_tags.leave(job)
  ended_ids.note(job.id)
  record.loaded[job.id] = false
end

-- Wake the callers that wait for the end of a job.
function ending.wake_awaiting(id, state)
  local key = keys.end_waiters(id)
  for _, wakeup_list in ipairs(redis.call('SMEMBERS', key)) do wakeups.send(wakeup_list, 'E' .. id .. state) end
  redis.call('DEL', key)
end

function ending.notify_awaiting(job)
  if not record.has(job, 'awaited') then return end
  ending.wake_awaiting(job.id, job.state)
  record.unmark(job, 'awaited')
end

-- The history is bounded in number and bytes; each call trims a little more than it added.
local function trim_history(queue, added)
  local key, config = keys.history(queue), configuration.of(queue)
  local bytes = tonumber(redis.call('HGET', keys.queue(queue), 'history_bytes_now') or 0)
  local length = redis.call('ZCARD', key)
  for _, id in ipairs(redis.call('ZRANGE', key, 0, added + 16)) do
    if length <= config.history_length and bytes <= config.history_bytes then break end
    local job = record.load(id)
    batch.z_remove(key, id)
    length = length - 1
    if job then
      bytes = bytes - record.total_bytes(job)
      ending.remove(job)
    end
  end
end

function ending.trim_histories()
  for queue, added in pairs(ending.trim_wanted) do trim_history(queue, added) end
  if next(ending.trim_wanted) then
    ending.trim_wanted = {}
    batch.flush()
  end
end

local function keep(job, for_ms)
  if record.has(job, 'unique_while_kept') == false then unique_keys.release(job) end
  index.enter(job)
  record.save(job)
  if for_ms < record.FOREVER_MS then batch.z_add(keys.retention(), job.ended_at + for_ms, job.id) end
end

-- Reset the removal of a kept finished job whose policy has changed. The time counts from its end.
function ending.reset_retention(job)
  if record.has(job, 'in_history') or dependencies.is_needed(job) then return end
  local for_ms = record.policy_of(job).result_ttl_ms
  if for_ms < record.FOREVER_MS then
    batch.z_add(keys.retention(), job.ended_at + for_ms, job.id)
  else
    batch.z_remove(keys.retention(), job.id)
  end
end

local function keep_as_history(job)
  unique_keys.release(job)
  record.mark(job, 'in_history')
  index.enter(job)
  record.save(job)
  batch.increment(keys.queue(job.queue), 'history_bytes_now', record.total_bytes(job))
  ending.trim_wanted[job.queue] = (ending.trim_wanted[job.queue] or 0) + 1
end

-- A finished job without a kept result that has a stream stays so long that readers get the last values.
local function kept_ms_of(job)
  if job.state ~= STATE.finished then return configuration.of(job.queue).retention_ms end
  local kept_ms = record.policy_of(job).result_ttl_ms
  local is_streamed = kept_ms == 0 and record.has(job, 'durable') and redis.call('EXISTS', keys.stream(job.id)) == 1
  return is_streamed and DURABLE.stream_kept_ms or kept_ms
end

-- Keep, move to the history, or remove a job that has ended, left its index, and is not needed by other jobs.
local function leave_behind(job, kept_ms)
  if kept_ms > 0 then
    keep(job, kept_ms)
  elseif configuration.of(job.queue).history_length > 0 then
    keep_as_history(job)
  else
    ending.remove(job)
  end
end

-- Apply its own retention to an ended job that was kept for others. The time counts from its end. `is_spent`: the
-- parent has read its outcome, so a cancelled job is not kept any longer.
function ending.retire(job, is_spent)
  -- A job in the history was not kept for others: it ended in the same call as its parent, and after it.
  if dependencies.is_needed(job) or record.has(job, 'in_history') then return end
  index.leave(job)
  if record.has(job, 'has_outcome') and record.policy_of(job).result_ttl_ms == 0 then
    batch.delete(keys.result(job.id))
    record.unmark(job, 'has_outcome')
  end
  leave_behind(job, (is_spent and job.state == STATE.cancelled) and 0 or kept_ms_of(job))
end

-- Keep an ended job that another job begins to need: neither its retention nor the bounds of the history may remove it.
function ending.claim(job)
  if record.has(job, 'in_history') then
    index.leave(job)
    record.unmark(job, 'in_history')
    -- It released its key when it entered the history: another job may hold the key.
    record.unmark(job, 'unique_while_kept')
    batch.increment(keys.queue(job.queue), 'history_bytes_now', -record.total_bytes(job))
    index.enter(job)
  end
  batch.z_remove(keys.retention(), job.id)
end

-- Store a job that has ended and left its old index: keep it for the jobs that need it and notify them, or apply its
-- retention.
function ending.settle(job, ignores_waiting)
  if job.links ~= '' then flow_record.note_end(job) end
  if dependencies.is_needed(job) then
    keep(job, record.FOREVER_MS)
    dependencies.notify_end(job, ignores_waiting)
  else
    leave_behind(job, kept_ms_of(job))
  end
end

-- End a job that is in the index of its old state. `how.reach` 'all': a cancel also reaches members that are not its
-- children. `how.ignores_waiting`: its parent does not wait for siblings that are waiting themselves. `how.result`: the
-- result reported with the end.
local NO_HOW = {}
function ending.end_job(job, state, how)
  how = how or NO_HOW
  index.leave(job)
  durable_state.forget_waits(job)
  end_header.set(job, state)
  record.unmark(job, 'cancel_requested')
  record.unmark(job, 'held')
  batch.increment(keys.queue(job.queue), 'bytes', -record.total_bytes(job))
  events.announce_state(job)
  if pending_callbacks.is_wanted(job) then pending_callbacks.add(job, how.result or '') end
  ending.notify_awaiting(job)
  dependencies.release_members(job, how.reach)
  ending.settle(job, how.ignores_waiting)
end

return ending
