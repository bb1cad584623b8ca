-- Cancel jobs. A job without a lease ends at once; a leased job gets a durable request to stop. Ending a job cancels
-- its children, and ending a group all of its members.
-- arguments: ARGV[1] clock offset; then per job: id, reason, '1' when waiting siblings keep its parent waiting, '1' to
--            cancel a failed job too, '1' to leave a leased job alone
-- returns:   per job 'cancelled', 'requested' or a refusal
-- refusals:  unknown_job, already_ended, wrong_state (it is leased, and is left alone)
-- flags: allow-oom
local batch = require 'batch'
local cancellation = require 'jobs.cancellation'
local ending = require 'jobs.ending'
local wake_takers = require 'workers.wake_takers'

return function(arguments)
  local answers = {}
  for i = 2, #arguments, 5 do table.insert(answers, cancellation.cancel(unpack(arguments, i, i + 4))) end
  batch.flush()
  wake_takers.wake_all()
  ending.trim_histories()
  return answers
end
