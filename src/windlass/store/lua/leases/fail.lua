-- End attempts unsuccessfully: the job is retried later, fails for good, or confirms a requested cancel.
-- arguments: per job: id, token (0: the current holder's), outcome ('retry' | 'final' | 'cancelled'), delay_ms (of the
--            retry), reason, problem (error with its codec; '': none)
-- returns:   per job 'retried', 'failed', 'cancelled' or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
local commit = require 'commit'
local reports = require 'leases.reports'
local script = require 'script'

return function(arguments)
  local answers = script.map(arguments, 2, 6, function(id, token, outcome, delay_ms, reason, problem)
    return reports.fail(id, tonumber(token), outcome, tonumber(delay_ms), reason, problem)
  end)
  commit.run()
  return answers
end
