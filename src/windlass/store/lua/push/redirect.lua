-- Lease a pushed job that its worker refused to another worker that knows its name, with a new token.
-- arguments: ARGV[1] clock offset, [2] id, [3] token, [4] accept_ms, [5...] workers that have refused it
-- returns:   {now, id + record, worker, description}; or 'later': other workers have no free slot now, so the job waits
--            in its queue, without a spent attempt; or 'nobody': all workers have refused it, and it is left unchanged
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
local STATE = require('constants').STATE
local batch = require 'batch'
local clock = require 'clock'
local ending = require 'jobs.ending'
local index = require 'jobs.index'
local record = require 'jobs.record'
local keys = require 'keys'
local lease = require 'leases.lease'
local reports = require 'leases.reports'
local push_workers = require 'workers.push_workers'
local wake_takers = require 'workers.wake_takers'

local LATER_MS = 1000

return function(arguments)
  local job, refused = reports.find_held(arguments[2], tonumber(arguments[3]))
  if not job then return refused end
  if job.state ~= STATE.dispatched then return 'wrong_state' end
  local has_refused = {}
  for i = 5, #arguments do has_refused[arguments[i]] = true end

  local function serves(worker)
    local push = redis.call('HGET', keys.worker(worker), 'push') or ''
    if not string.find(push .. '\1', '\1' .. job.queue .. '\1', 1, true) then return false end
    return not redis.call('ZSCORE', keys.unknown_names(worker), job.name)
  end

  local best, is_another = nil, false
  for _, worker in ipairs(redis.call('ZRANGE', keys.push_workers(), 0, push_workers.READ_MAX - 1)) do
    if not has_refused[worker] and serves(worker) then
      is_another = true
      local candidate = push_workers.candidate(worker)
      if candidate and (not best or candidate.room > best.room) then best = candidate end
    end
  end
  if not is_another then return 'nobody' end
  if best then
    index.leave(job)
    job.token = redis.call('INCR', keys.token())
    job.worker, job.started_at, job.deadline, job.announced = best.worker, clock.now_ms, clock.now_ms + tonumber(arguments[4]), nil
    index.enter(job)
    record.save(job)
    batch.flush()
    wake_takers.wake_all()
    local whole = lease.load_whole({job.id})[1]
    return {clock.now_ms, whole.id .. whole.raw, best.worker, best.description}
  end
  job.attempt = math.max(0, job.attempt - 1)
  reports.put_back(job, clock.now_ms + LATER_MS)
  batch.flush()
  wake_takers.wake_all()
  ending.trim_histories()
  return 'later'
end
