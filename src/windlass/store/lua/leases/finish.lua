-- Finish jobs. The result is kept if the job asks for it. A job with members that have not ended waits for them; a
-- repeating job waits for its next run.
-- arguments: ARGV[1] clock offset; then per job: a finish as packed for reports.lua, with its next run: '' (not
--            computed yet), 'end', 'never' or an instant
-- returns:   per job 'ok', 'waiting' (it yields to its children), 'failed' or 'cancelled' (the end of a member
--            decides), a refusal, or for a repeating job {rule, planned instant, start, now, revision}: nothing was
--            changed, and the caller must compute the next run
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
local batch = require 'batch'
local simple_finish = require 'fast_path.simple_finish'
local ending = require 'jobs.ending'
local reports = require 'leases.reports'
local wake_takers = require 'workers.wake_takers'

return function(arguments)
  local answers = {}
  for i = 2, #arguments do table.insert(answers, reports.finish(reports.read_finish(arguments[i]))) end
  batch.flush()
  wake_takers.wake_all()
  ending.trim_histories()
  return answers
end, simple_finish.finish
