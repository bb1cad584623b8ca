-- Schedules: their state, and the jobs of their occurrences.
local clock = require 'clock'
local cancellation = require 'jobs.cancellation'
local insert = require 'jobs.insert'
local record = require 'jobs.record'
local keys = require 'keys'
local wakeups = require 'workers.wakeups'

local schedules = {}

local JOBS_REMEMBERED = 20

function schedules.revision_of(name) return tonumber(redis.call('HGET', keys.schedule(name), 'revision') or 0) end
function schedules.is_paused(name) return redis.call('HEXISTS', keys.schedule(name), 'paused') == 1 end

-- Set the next occurrence (0: none).
function schedules.plan(name, next_at)
  redis.call('HSET', keys.schedule(name), 'next_at', next_at)
  local fires = next_at > 0 and not schedules.is_paused(name)
  redis.call('ZADD', keys.schedules(), fires and next_at or '+inf', name)
  if fires then wakeups.wake_loops(next_at) end
end

-- Return the jobs that have not ended, of the last ones that the schedule created.
local function open_jobs(name)
  local found = {}
  for _, id in ipairs(redis.call('LRANGE', keys.schedule_jobs(name), 0, -1)) do
    local job = record.load(id)
    if job and not record.is_ended(job) then found[#found + 1] = id end
  end
  return found
end

local function note_job(name, planned_at, id)
  redis.call('LPUSH', keys.schedule_jobs(name), id)
  redis.call('LTRIM', keys.schedule_jobs(name), 0, JOBS_REMEMBERED - 1)
  redis.call('HSET', keys.schedule(name), 'last_planned_at', planned_at, 'last_fired_at', clock.now_ms, 'last_job', id)
end

local IS_MADE = {queued = true, scheduled = true, waiting = true, replaced = true}

-- Create the job of an occurrence. The caller has checked that its id is new.
function schedules.create_job(name, planned_at, entry, terms)
  local id = string.sub(entry, 1, 16)
  local answer = insert.insert(id, keys.job(id), entry, terms, redis.call('INCR', keys.sequence()), false, false)
  local status = answer[1]
  local counted = IS_MADE[status] and 'fired' or status == 'existing' and 'skipped' or 'missed'
  redis.call('HINCRBY', keys.schedule(name), counted, 1)
  if counted == 'fired' then note_job(name, planned_at, answer[2]) end
  return answer, counted == 'fired'
end

-- Return whether an occurrence may create its job now. With the overlap 'replace', open jobs are cancelled first.
function schedules.may_create(name, overlap)
  if overlap == 'allow' then return true end
  local open = open_jobs(name)
  if overlap == 'skip' then return #open == 0 end
  for _, id in ipairs(open) do cancellation.cancel(id, 'replaced', '1', '0') end
  return true
end

return schedules
