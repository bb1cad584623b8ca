-- Lease a pushed job that its worker refused to another worker that knows its name, with a new token.
-- arguments: id, token, accept_ms; then workers that have refused it
-- returns:   {now, id + record, worker, description, length of its fixed lease in ms (0: it is renewed)}; or 'later':
--            other workers have no free slot now, so the job waits in its queue, without a spent attempt; or 'nobody':
--            all workers have refused it, and it is left unchanged
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
local STATE = require('constants').STATE
local clock = require 'clock'
local commit = require 'commit'
local index = require 'jobs.index'
local record = require 'jobs.record'
local keys = require 'keys'
local lease = require 'leases.lease'
local lease_header = require 'leases.lease_header'
local reports = require 'leases.reports'
local push_workers = require 'workers.push_workers'

local LATER_MS = 1000
local WORKERS_AT = 5

local function serves(worker, job)
  local push = redis.call('HGET', keys.worker(worker), 'push') or ''
  if not string.find(push .. '\1', '\1' .. job.queue .. '\1', 1, true) then return false end
  return not redis.call('ZSCORE', keys.unknown_names(worker), job.name)
end

-- Return the worker with the most free slots (nil: none has one), and whether any worker may take the job.
local function find_worker(job, has_refused)
  local best, is_another = nil, false
  for _, worker in ipairs(redis.call('ZRANGE', keys.push_workers(), 0, push_workers.READ_MAX - 1)) do
    if not has_refused[worker] and serves(worker, job) then
      is_another = true
      local candidate = push_workers.candidate(worker)
      if candidate and (not best or candidate.room > best.room) then best = candidate end
    end
  end
  return best, is_another
end

local function lease_to(worker, job, accept_ms)
  index.leave(job)
  local token, deadline = redis.call('INCR', keys.token()), clock.now_ms + accept_ms
  lease_header.set(job, STATE.dispatched, token, deadline, worker, job.attempt)
  job.announced = nil -- announce the new lease
  index.enter(job)
  record.save(job)
end

return function(arguments, id, token, accept_ms)
  local job, refused = reports.find_held(id, tonumber(token))
  if not job then return refused end
  if job.state ~= STATE.dispatched then return 'wrong_state' end
  local has_refused = {}
  for i = WORKERS_AT, #arguments do has_refused[arguments[i]] = true end
  local best, is_another = find_worker(job, has_refused)
  if not is_another then return 'nobody' end
  if not best then
    job.attempt = math.max(0, job.attempt - 1)
    reports.put_back(job, clock.now_ms + LATER_MS)
    commit.run()
    return 'later'
  end
  lease_to(best.worker, job, tonumber(accept_ms))
  commit.run()
  local whole = lease.load_whole({id})[1]
  return {clock.now_ms, whole.id .. whole.raw, best.worker, best.description, lease.fixed_ms(whole) or 0}
end
