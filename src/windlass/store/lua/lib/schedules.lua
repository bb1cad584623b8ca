-- uses: keys, clock, record, wakeups, insert, cancel_job
-- Schedules: their state, and the jobs of their occurrences.
local JOBS_REMEMBERED = 20

local function schedule_key(name) return P .. 's:' .. name end
local function schedule_jobs_key(name) return P .. 'sj:' .. name end

local function revision_of_schedule(name) return tonumber(redis.call('HGET', schedule_key(name), 'revision') or 0) end
local function is_paused(name) return redis.call('HEXISTS', schedule_key(name), 'paused') == 1 end

-- Set the next occurrence (0: none).
local function plan_schedule(name, next_at)
  redis.call('HSET', schedule_key(name), 'next_at', next_at)
  local fires = next_at > 0 and not is_paused(name)
  redis.call('ZADD', P .. 'schedules', fires and next_at or '+inf', name)
  if fires then tell_loops(next_at) end
end

-- Return the jobs that have not ended, of the last ones that the schedule created.
local function open_jobs(name)
  local found = {}
  for _, id in ipairs(redis.call('LRANGE', schedule_jobs_key(name), 0, -1)) do
    local r = load(id)
    if r and not is_ended(r) then found[#found + 1] = id end
  end
  return found
end

local function note_job(name, planned_at, id)
  redis.call('LPUSH', schedule_jobs_key(name), id)
  redis.call('LTRIM', schedule_jobs_key(name), 0, JOBS_REMEMBERED - 1)
  redis.call('HSET', schedule_key(name), 'last_planned_at', planned_at, 'last_fired_at', now_ms, 'last_job', id)
end

local IS_MADE = {queued = true, scheduled = true, waiting = true, replaced = true}

-- Create the job of an occurrence. The caller has checked that its id is new.
local function make_job(name, planned_at, entry, terms)
  local id = string.sub(entry, 1, 16)
  local answer = enqueue_one(id, job_key(id), entry, terms, redis.call('INCR', P .. 'seq'), false, false)
  local status = answer[1]
  local counted = IS_MADE[status] and 'fired' or status == 'existing' and 'skipped' or 'missed'
  redis.call('HINCRBY', schedule_key(name), counted, 1)
  if counted == 'fired' then note_job(name, planned_at, answer[2]) end
  return answer, counted == 'fired'
end

-- Return whether an occurrence may create its job now. With the overlap 'replace', open jobs are cancelled first.
local function makes_way(name, overlap)
  if overlap == 'allow' then return true end
  local open = open_jobs(name)
  if overlap == 'skip' then return #open == 0 end
  for _, id in ipairs(open) do cancel(id, 'replaced', '1', '0') end
  return true
end
