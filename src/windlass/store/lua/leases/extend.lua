-- Extend leases (heartbeat of their holders), many in one call.
-- arguments: lease_ms (0: the job's or the queue's); then per job: id, token
-- returns:   per job {deadline (0: none), 1 when its cancel was requested} or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
local batch = require 'batch'
local record = require 'jobs.record'
local lease = require 'leases.lease'
local reports = require 'leases.reports'
local script = require 'script'

local function extend(id, token, lease_ms)
  local job, refused = reports.find_held(id, token)
  if not job then return refused end
  refused = lease.renew(job, lease_ms)
  if refused then return refused end
  return {job.deadline, record.has(job, 'cancel_requested') and 1 or 0}
end

return function(arguments, lease_ms)
  local answers = script.map(arguments, 3, 2, function(id, token)
    return extend(id, tonumber(token), tonumber(lease_ms))
  end)
  batch.flush()
  return answers
end
