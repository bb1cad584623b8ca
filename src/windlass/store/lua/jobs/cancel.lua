-- Cancel jobs. A job without a lease ends at once; a leased job gets a durable request to stop. Ending a job cancels
-- its children, and ending a group all of its members.
-- arguments: per job: id, reason, counts_waiting ('1': waiting siblings keep its parent waiting), even_failed
--            ('1': cancel a failed job too), spares_running ('1': leave a leased job alone)
-- returns:   per job 'cancelled', 'requested' or a refusal
-- refusals:  unknown_job, already_ended, wrong_state (it is leased, and is left alone)
-- flags: allow-oom
local commit = require 'commit'
local cancellation = require 'jobs.cancellation'
local script = require 'script'

return function(arguments)
  local answers = script.map(arguments, 2, 5, cancellation.cancel)
  commit.run()
  return answers
end
