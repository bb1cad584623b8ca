-- Finish jobs. The result is kept if the job asks for it. A job with members that have not ended waits for them; a
-- repeating job waits for its next run.
-- arguments: per job a finish as packed for reports.lua, with its next run: '' (not computed yet), 'end', 'never' or an
--            instant
-- returns:   per job 'ok', 'waiting' (it yields to its children), 'failed' or 'cancelled' (the end of a member
--            decides), a refusal, or for a repeating job {rule, planned instant, start, now, revision}: nothing was
--            changed, and the caller must compute the next run
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
local commit = require 'commit'
local fast_finish = require 'fast_path.finish'
local reports = require 'leases.reports'
local script = require 'script'

return function(arguments)
  local answers = script.map(arguments, 2, 1, function(item) return reports.finish(reports.read_finish(item)) end)
  commit.run()
  return answers
end, fast_finish.finish
