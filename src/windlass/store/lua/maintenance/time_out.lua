-- End attempts that exceeded their execution timeout, as decided by the recoverer.
-- arguments: per job: id, token, outcome ('retry' | 'final'), delay_ms (of the retry)
-- returns:   per job 'retried', 'failed', 'cancelled', 'stale_lease' (another report came first) or another refusal
-- refusals:  unknown_job, already_ended, stale_lease
-- flags: allow-oom
local commit = require 'commit'
local record = require 'jobs.record'
local expiry = require 'leases.expiry'
local reports = require 'leases.reports'
local script = require 'script'

local function time_out(id, token, outcome, delay_ms)
  local job, refused = reports.find_held(id, token)
  if not job then return refused end
  if not expiry.is_timed_out(job) then return 'stale_lease' end
  if record.has(job, 'cancel_requested') then outcome = 'cancelled' end
  return reports.fail(id, token, outcome, delay_ms, 'timeout', '')
end

return function(arguments)
  local answers = script.map(arguments, 2, 4, function(id, token, outcome, delay_ms)
    return time_out(id, tonumber(token), outcome, tonumber(delay_ms))
  end)
  commit.run()
  return answers
end
