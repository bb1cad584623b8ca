-- Workers that are gone: silent for too long, or without the connection that they asked to be judged by.
local STATE = require('constants').STATE
local batch = require 'batch'
local clock = require 'clock'
local record = require 'jobs.record'
local keys = require 'keys'
local expiry = require 'leases.expiry'
local push_workers = require 'workers.push_workers'

local silent_workers = {}

local function lose_lease(job, reason, problem)
  local is_running = job.state == STATE.running
  if is_running and (job.deadline == 0 or job.deadline > clock.now_ms) then job.deadline = clock.now_ms end
  expiry.lose_lease(job, reason, problem)
end

-- Take up to `most` jobs back from a worker: each spends its attempt, which ends with this reason and error. The worker
-- is removed with its last job. Returns the number of its leases.
function silent_workers.recover(worker, most, reason, problem)
  local ids, returned = redis.call('ZRANGE', keys.worker_jobs(worker), 0, most - 1), 0
  for _, id in ipairs(ids) do
    local job = record.load(id)
    if job and record.is_leased(job) and not record.has(job, 'retakeable') then
      lose_lease(job, reason, problem)
      returned = returned + 1
    end
    -- A retake job keeps running until another worker takes it, but its worker is lost.
    batch.z_remove(keys.worker_jobs(worker), id)
  end
  batch.flush()
  if #ids < most then
    redis.call('ZREM', keys.workers(), worker)
    redis.call('DEL', keys.worker(worker))
    push_workers.forget(worker)
  end
  return returned
end

return silent_workers
