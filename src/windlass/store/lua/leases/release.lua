-- Give jobs back without working on them: they keep their position, and no attempt is spent.
-- arguments: ARGV[1] clock offset; then per job: id, token (0: the current holder's)
-- returns:   per job 'queued', 'scheduled', 'cancelled' (a cancel was requested) or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
local batch = require 'batch'
local ending = require 'jobs.ending'
local reports = require 'leases.reports'
local wake_takers = require 'workers.wake_takers'

local function release(id, token)
  local job, refused = reports.find_held(id, token)
  if not job then return refused end
  return reports.release(job)
end

return function(arguments)
  local answers = {}
  for i = 2, #arguments, 2 do table.insert(answers, release(arguments[i], tonumber(arguments[i + 1]))) end
  batch.flush()
  wake_takers.wake_all()
  ending.trim_histories()
  return answers
end
