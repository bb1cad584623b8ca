-- Extend leases (heartbeat of their holders), many in one call.
-- arguments: ARGV[1] clock offset, [2] lease_ms (0: the job's or the queue's); then per job: id, token
-- returns:   per job {deadline (0: none), 1 when its cancel was requested} or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
local batch = require 'batch'
local record = require 'jobs.record'
local lease = require 'leases.lease'
local reports = require 'leases.reports'

return function(arguments)
  local function extend(id, token)
    local job, refused = reports.find_held(id, token)
    if not job then return refused end
    refused = lease.renew(job, tonumber(arguments[2]))
    if refused then return refused end
    return {job.deadline, record.has(job, 'cancel_requested') and 1 or 0}
  end

  local answers = {}
  for i = 3, #arguments, 2 do table.insert(answers, extend(arguments[i], tonumber(arguments[i + 1]))) end
  batch.flush()
  return answers
end
