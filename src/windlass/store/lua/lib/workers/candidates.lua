-- Takers that could take a job: those that wait for its queue, and the registered workers. Read-only.
local clock = require 'clock'
local keys = require 'keys'
local taker_filter = require 'workers.taker_filter'
local wakeups = require 'workers.wakeups'

local candidates = {}

-- Return how many takers wait, how many of them want this job, how many jobs of its queue are leased, and the first
-- filters that do not match it.
function candidates.waiting_takers(job, most)
  local waiting, wanting, unfit, is_wanted = 0, 0, {}, {}
  local list = wakeups.load_waiters(job.queue)
  for i = 1, #list, 2 do
    if tonumber(list[i + 1]) >= clock.now_ms then
      local filter = string.match(list[i], '^[^\1]*\1(.*)$')
      -- Many takers wait with the same filter.
      if is_wanted[filter] == nil then
        is_wanted[filter] = taker_filter.matches(taker_filter.parse(filter), job)
        if not is_wanted[filter] and #unfit < most then unfit[#unfit + 1] = filter end
      end
      waiting = waiting + 1
      if is_wanted[filter] then wanting = wanting + 1 end
    end
  end
  return {waiting, wanting, redis.call('ZCARD', keys.running(job.queue)), unfit}
end

-- Return {worker, silent at, heartbeat interval in ms, description, jobs held}, or nil if it is not registered.
function candidates.describe_worker(worker)
  local silent_at = redis.call('ZSCORE', keys.workers(), worker)
  if not silent_at then return nil end
  local beat_ms, description = unpack(redis.call('HMGET', keys.worker(worker), 'beat_ms', 'description'))
  local jobs_held = redis.call('ZCARD', keys.worker_jobs(worker))
  return {worker, tonumber(silent_at), tonumber(beat_ms or 0), description or '', jobs_held}
end

-- If there are very many, return those with the latest heartbeat deadlines.
function candidates.registered_workers(most)
  local found = {}
  for i, worker in ipairs(redis.call('ZREVRANGE', keys.workers(), 0, most - 1)) do
    found[i] = candidates.describe_worker(worker)
  end
  return found
end

-- Return the push workers that reported that they do not know its name.
function candidates.workers_without_name(job, most)
  local found = {}
  for _, worker in ipairs(redis.call('ZRANGE', keys.push_workers(), 0, most - 1)) do
    if redis.call('ZSCORE', keys.unknown_names(worker), job.name) then found[#found + 1] = worker end
  end
  return found
end

return candidates
