-- Lease up to `most` jobs from the given queues, in their order. If there are none, register the caller for a wakeup.
-- arguments: ARGV[1] clock offset, [2] filter (filter.lua), [3] most, [4] worker (16 bytes), [5] lease_ms (0: the job's
--            or the queue's), [6] accept_ms (0: running at once), [7] wakeup list ('': do not register),
--            [8] registration in ms, [9] '1' when others wait on the same wakeup list, so that it stays registered; '2'
--            when the worker accepts a direct handoff, [10] where a long scan over lanes resumes, [11...] queues
-- returns:   {now, next instant at which something may be due (0: none), resume (0: done), {id + record, ...}, {id,
--            instant of its previous lease, ... of jobs that were leased before}, number of jobs that failed because
--            they had no attempt left}
-- refusals:  names_need_lanes, no_exact_priority, partition_stopped (instead of the answer)
-- flags: allow-oom
local simple_take = require 'fast_path.simple_take'
local take = require 'leases.take'

return function(arguments)
  local request = {filter = arguments[2], most = tonumber(arguments[3]), wakeup_list = arguments[7], registered_ms = tonumber(arguments[8]),
    others_wait = arguments[9] == '1', direct_handoff = arguments[9] == '2', from = tonumber(arguments[10]), queues_at = 11}
  local terms = {worker = arguments[4], lease_ms = tonumber(arguments[5]), accept_ms = tonumber(arguments[6])}
  return take.take(request, terms)
end, simple_take.take
