-- Give jobs back without working on them: they keep their position, and no attempt is spent.
-- arguments: per job: id, token (0: the current holder's)
-- returns:   per job 'queued', 'scheduled', 'cancelled' (a cancel was requested) or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
local commit = require 'commit'
local reports = require 'leases.reports'
local script = require 'script'

local function release(id, token)
  local job, refused = reports.find_held(id, tonumber(token))
  if not job then return refused end
  return reports.release(job)
end

return function(arguments)
  local answers = script.map(arguments, 2, 2, release)
  commit.run()
  return answers
end
