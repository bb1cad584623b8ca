-- End attempts that exceeded their execution timeout, as decided by the recoverer.
-- arguments: ARGV[1] clock offset; then per job: id, token, 'retry' | 'final', delay_ms of the retry
-- returns:   per job 'retried', 'failed', 'cancelled', 'stale_lease' (another report came first) or another refusal
-- refusals:  unknown_job, already_ended, stale_lease
-- flags: allow-oom
local batch = require 'batch'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local expiry = require 'leases.expiry'
local reports = require 'leases.reports'
local wake_takers = require 'workers.wake_takers'

local function time_out(id, token, then_what, delay_ms)
  local job, refused = reports.find_held(id, token)
  if not job then return refused end
  if not expiry.is_timed_out(job) then return 'stale_lease' end
  if record.has(job, 'cancel_requested') then then_what = 'cancelled' end
  return reports.fail(id, token, then_what, delay_ms, 'timeout', '')
end

return function(arguments)
  local answers = {}
  for i = 2, #arguments, 4 do
    table.insert(answers, time_out(arguments[i], tonumber(arguments[i + 1]), arguments[i + 2], tonumber(arguments[i + 3])))
  end
  batch.flush()
  wake_takers.wake_all()
  ending.trim_histories()
  return answers
end
