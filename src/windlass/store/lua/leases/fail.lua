-- End attempts unsuccessfully: the job is retried later, fails for good, or confirms a requested cancel.
-- arguments: ARGV[1] clock offset; then per job: id, token (0: the current holder's), 'retry' | 'final' | 'cancelled',
--            delay_ms of the retry, reason, error with its codec ('': none)
-- returns:   per job 'retried', 'failed', 'cancelled' or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
local batch = require 'batch'
local ending = require 'jobs.ending'
local reports = require 'leases.reports'
local wake_takers = require 'workers.wake_takers'

return function(arguments)
  local answers = {}
  for i = 2, #arguments, 6 do
    table.insert(answers, reports.fail(arguments[i], tonumber(arguments[i + 1]), arguments[i + 2], tonumber(arguments[i + 3]), arguments[i + 4], arguments[i + 5]))
  end
  batch.flush()
  wake_takers.wake_all()
  ending.trim_histories()
  return answers
end
