-- Jobs on which workers report by messages, without a token: the worker's name decides whether it holds a job.
local STATE = require('constants').STATE
local batch = require 'batch'
local counters = require 'jobs.counters'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local unique_keys = require 'jobs.unique_keys'
local keys = require 'keys'
local lease = require 'leases.lease'
local limits = require 'limits.limits'

local reported_jobs = {}

local JOBS_READ = 100 -- of one worker

-- Return the oldest holder of a unique key, or the job with this id; else nil and the refusal.
function reported_jobs.find(queue, unique, id)
  local job = unique ~= '' and unique_keys.oldest_holder({queue = queue, unique = unique})
  if job or id == '' then return job, 'unknown_job' end
  job = record.load(id)
  if not job then return nil, ending.missing(id) end
  if job.queue ~= queue then return nil, 'unknown_job' end
  return job
end

-- Return the jobs of a worker in this state.
function reported_jobs.of_worker(worker, state)
  local found = {}
  for _, id in ipairs(redis.call('ZRANGE', keys.worker_jobs(worker), 0, JOBS_READ - 1)) do
    local job = record.load(id)
    if job and job.state == state and job.worker == worker then found[#found + 1] = job end
  end
  return found
end

-- Return the length of a lease that a message starts. Messages do not extend a fixed lease, so it has its full length.
-- A silent worker loses its jobs before that (recover.lua).
local function lease_ms_of(job, silent_ms) return lease.fixed_ms(job) or silent_ms end

local function lease_again(job, worker, silent_ms)
  local own_limits = record.links_of(job).limits
  if own_limits ~= '' and limits.first_full(job.queue, own_limits) then return nil, 'wrong_state' end
  if not lease.may_start(job) then return nil, 'already_ended' end
  local terms = {worker = worker, lease_ms = lease_ms_of(job, silent_ms), accept_ms = 0}
  lease.grant(job, redis.call('INCR', keys.token()), terms)
  counters.add(job.queue, 'taken', 1)
  batch.flush()
  return job
end

-- Return the job if the worker holds it, or can hold it again; else nil and the refusal. Where leases are fixed, a
-- worker that has lost a job gets it again only by accepting it.
function reported_jobs.hold(job, worker, silent_ms, is_acceptance)
  if record.is_leased(job) then
    if job.worker == worker then return job end
    return nil, 'stale_lease'
  end
  if record.is_ended(job) then return nil, 'already_ended' end
  -- Workers that report by messages do not know steps, and would repeat those that are stored.
  if job.state ~= STATE.queued or record.has(job, 'needs_steps') then return nil, 'wrong_state' end
  if not is_acceptance and lease.fixed_ms(job) then return nil, 'stale_lease' end
  return lease_again(job, worker, silent_ms)
end

-- Accept the job if it is dispatched, and extend its lease. Returns a refusal, or nil.
function reported_jobs.renew(job, silent_ms)
  if job.state == STATE.dispatched then lease.accept(job.id, job.token, lease_ms_of(job, silent_ms)) end
  return lease.renew(job, silent_ms)
end

return reported_jobs
