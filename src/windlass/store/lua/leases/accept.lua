-- Accept jobs that were dispatched to a worker: their leases begin.
-- arguments: lease_ms (0: the job's or the queue's); then per job: id, token
-- returns:   per job its deadline as text ('0': none) or a refusal; a job that already runs is left unchanged
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
local batch = require 'batch'
local fast_accept = require 'fast_path.accept'
local lease = require 'leases.lease'
local script = require 'script'

return function(arguments, lease_ms)
  local answers = script.map(arguments, 3, 2, function(id, token)
    return lease.accept(id, tonumber(token), tonumber(lease_ms))
  end)
  batch.flush()
  return answers
end, fast_accept.accept
