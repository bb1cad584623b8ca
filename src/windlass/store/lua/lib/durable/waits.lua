-- Waits of suspended jobs: when they are met, and what wakes their job. A job that wakes too early does no harm: its
-- code runs up to the wait and is suspended again.
local STATE = require('constants').STATE
local STEP_KIND = require('constants').STEP_KIND
local STEP_STATUS = require('constants').STEP_STATUS
local batch = require 'batch'
local clock = require 'clock'
local state = require 'durable.state'
local index = require 'jobs.index'
local record = require 'jobs.record'
local keys = require 'keys'

local waits = {}

local CHILDREN_READ = 1000

-- Return {name, step} of the steps that a suspended job waits for.
function waits.open_waits(job)
  local names, found, at = redis.call('HGET', keys.durable(job.id), 'w') or '', {}, 1
  while at <= #names do
    local name, following = struct.unpack('>I2c0', names, at)
    local step = state.load_step(job, name)
    if step then found[#found + 1] = {name = name, step = step} end
    at = following
  end
  return found
end

-- Return how many children of a wait have not ended, and whether one of them failed or was cancelled. A child that is
-- not listed was deleted.
local function count_pending(job, detail)
  local ids, pending, has_failed = {}, 0, false
  for at = 2, #detail, 16 do ids[#ids + 1] = string.sub(detail, at, at + 15) end
  for first = 1, #ids, CHILDREN_READ do
    local last = math.min(first + CHILDREN_READ - 1, #ids)
    local scores = redis.call('ZMSCORE', keys.members(job.id), unpack(ids, first, last))
    for i = 1, last - first + 1 do
      local score = tonumber(scores[i] or STATE.cancelled)
      if score < STATE.finished then pending = pending + 1 elseif score >= STATE.failed then has_failed = true end
    end
  end
  return pending, has_failed
end

-- Return whether all children of a wait have ended, or one of them failed and the wait does not need the others.
local function are_children_ended(job, detail)
  local pending, has_failed = count_pending(job, detail)
  local needs_all = string.sub(detail, 1, 1) == '1'
  return pending == 0 or (has_failed and not needs_all)
end

function waits.is_met(job, step)
  if step.status ~= STEP_STATUS.waiting then return true end
  if step.wake_at > 0 and step.wake_at <= clock.now_ms then return true end
  return step.kind == STEP_KIND.children and are_children_ended(job, step.detail)
end

-- Store the outcome of a wait whose time has come. A step that is tried again, and children, are left to the next run.
function waits.settle(job, name, step)
  if step.status ~= STEP_STATUS.waiting or step.wake_at == 0 or step.wake_at > clock.now_ms then return end
  local status = step.kind == STEP_KIND.sleep and STEP_STATUS.done
    or step.kind == STEP_KIND.signal and STEP_STATUS.timed_out
  if not status then return end
  step.status, step.ended_at, step.value = status, clock.now_ms, '' -- the schema of the signal has served its purpose
  state.save_step(job, name, step)
end

-- Queue a suspended job. It keeps its sequence number, and so its place among jobs of the same time.
function waits.wake(job)
  for _, wait in ipairs(waits.open_waits(job)) do waits.settle(job, wait.name, wait.step) end
  redis.call('HDEL', keys.durable(job.id), 'w', 't')
  redis.call('HSET', keys.durable(job.id), 'z', 1)
  index.leave(job)
  job.state, job.ready_at, job.deadline = STATE.queued, math.min(index.wakes_at(job), clock.now_ms), 0
  index.enter(job)
  record.save(job)
end

-- Return the facts about the waits of a suspended job, as explain.lua lists them.
function waits.describe(job)
  local key = keys.durable(job.id)
  local facts = {{'suspended', tonumber(redis.call('HGET', key, 't') or 0)}}
  for _, wait in ipairs(waits.open_waits(job)) do
    local pending = wait.step.kind == STEP_KIND.children and count_pending(job, wait.step.detail) or 0
    facts[#facts + 1] = {'wait', wait.name, redis.call('HGET', key, 's' .. wait.name), pending}
  end
  return facts
end

-- Wake a suspended job if the children that it waits for have ended.
function waits.check_children(job)
  for _, wait in ipairs(waits.open_waits(job)) do
    if wait.step.kind == STEP_KIND.children and waits.is_met(job, wait.step) then return waits.wake(job) end
  end
end

-- Wake these jobs of a queue, whose time has come. Returns their number.
function waits.wake_due(ids, queue)
  for _, id in ipairs(ids) do
    local job = record.load(id)
    if job then waits.wake(job) else batch.z_remove(keys.suspended(queue), id) end
  end
  return #ids
end


return waits
