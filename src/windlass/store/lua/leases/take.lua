-- Lease up to `most` jobs from the given queues, in their order. If there are none, register the caller for a wakeup.
-- arguments: filter (taker_filter.lua), most, worker (16 bytes), lease_ms (0: the job's or the queue's; negative: this
--            long for jobs that have no own lease with an end), accept_ms (0: running at once), wakeup_list ('': do not
--            register), registered_ms, waiting ('1' when others wait on the same wakeup list, so that it stays
--            registered; '2' when the worker accepts a direct handoff), resume (where a long scan over lanes resumes);
--            then queues
-- returns:   {now, next instant at which something may be due (0: none), resume (0: done), {id + record, ...}, {id,
--            instant of its previous lease, ... of jobs that were leased before}, number of jobs that failed because
--            they had no attempt left}
-- refusals:  names_need_lanes, no_exact_priority, partition_stopped (instead of the answer)
-- flags: allow-oom
local fast_take = require 'fast_path.take'
local take = require 'leases.take'

return function(arguments, ...)
  return take.take(take.read_request(arguments, 11, ...))
end, fast_take.take
