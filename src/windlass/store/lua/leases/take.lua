-- Leases up to `most` jobs from the given queues, in their order; registers the bell when there is nothing.
-- arguments: ARGV[1] clock offset, [2] filter (filter.lua), [3] most, [4] worker (16 bytes), [5] lease_ms (0: the
--            job's or the queue's), [6] accept_ms (0: running at once), [7] bell ('': do not register),
--            [8] registered for ms, [9] '1' when others wait behind the same bell: it stays registered; '2' when the worker
--            may be handed a job with the ring, [10] where a long walk over lanes goes on, [11...] queues
-- returns:   {now, next instant at which something may be due (0: none), resume (0: done), {id + record, ...},
--            {id, when it was taken the time before, ... of those that had been}, jobs that failed for want of attempts}
-- refusals:  names_need_lanes, no_exact_priority, partition_stopped (instead of the answer)
-- flags: allow-oom
-- first: take_plainly
-- uses: taking, plain_take
local arguments = {filter = ARGV[2], most = tonumber(ARGV[3]), bell = ARGV[7], registered_ms = tonumber(ARGV[8]),
  others_wait = ARGV[9] == '1', by_hand = ARGV[9] == '2', from = tonumber(ARGV[10]), queues_at = 11}
local terms = {worker = ARGV[4], lease_ms = tonumber(ARGV[5]), accept_ms = tonumber(ARGV[6])}
return take_all(arguments, terms)
