-- Extend leases (heartbeat of their holders), many in one call.
-- arguments: lease_ms (0: the job's or the queue's); then per job: id, token
-- returns:   per job {deadline (0: none), 1 when its cancel was requested} or a refusal; of a fixed lease, which is not
--            extended, {deadline, 1 when its cancel was requested, ms until the deadline}
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
local batch = require 'batch'
local clock = require 'clock'
local record = require 'jobs.record'
local lease = require 'leases.lease'
local reports = require 'leases.reports'
local script = require 'script'

local function extend(id, token, lease_ms)
  local job, refused = reports.find_held(id, token)
  if not job then return refused end
  local is_cancelled = record.has(job, 'cancel_requested') and 1 or 0
  if lease.is_fixed(job) then return {job.deadline, is_cancelled, math.max(0, job.deadline - clock.now_ms)} end
  refused = lease.prolong(job, lease_ms)
  return refused or {job.deadline, is_cancelled}
end

return function(arguments, lease_ms)
  local answers = script.map(arguments, 3, 2, function(id, token)
    return extend(id, tonumber(token), tonumber(lease_ms))
  end)
  batch.flush()
  return answers
end
