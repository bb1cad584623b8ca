-- Remove a worker that leaves. The jobs that it still holds return without a spent attempt (or end, if a cancel was
-- requested), a bounded number per call.
-- arguments: worker (16 bytes), most (jobs)
-- returns:   {jobs given back, 1 when the worker is removed, 0 when it may hold more} or a refusal
-- refusals:  unknown_worker
-- flags: allow-oom
local commit = require 'commit'
local record = require 'jobs.record'
local keys = require 'keys'
local reports = require 'leases.reports'
local push_workers = require 'workers.push_workers'

return function(_, worker, most)
  most = tonumber(most)
  local ids = redis.call('ZRANGE', keys.worker_jobs(worker), 0, most - 1)
  if #ids == 0 and redis.call('EXISTS', keys.worker(worker)) == 0 then return 'unknown_worker' end
  for _, id in ipairs(ids) do
    local job = record.load(id)
    if job and record.is_leased(job) then reports.release(job) end
  end
  commit.run()
  if #ids == most then return {#ids, 0} end
  redis.call('ZREM', keys.workers(), worker)
  redis.call('DEL', keys.worker(worker))
  push_workers.forget(worker)
  return {#ids, 1}
end
