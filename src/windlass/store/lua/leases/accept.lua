-- Accept jobs that were dispatched to a worker: their leases begin.
-- arguments: ARGV[1] clock offset, [2] lease_ms (0: the job's or the queue's); then per job: id, token
-- returns:   per job its deadline as text ('0': none) or a refusal; a job that already runs is left unchanged
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
local batch = require 'batch'
local lease = require 'leases.lease'

return function(arguments)
  local answers = {}
  for i = 3, #arguments, 2 do table.insert(answers, lease.accept(arguments[i], tonumber(arguments[i + 1]), tonumber(arguments[2]))) end
  batch.flush()
  return answers
end
