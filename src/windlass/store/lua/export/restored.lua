-- Link imported jobs to their parents and dependencies, in steps: first link all jobs, then end the waits that are
-- over.
-- arguments: ARGV[1] clock offset, [2] most jobs
-- returns:   {1 when there is more to do, number of awaited jobs that are unknown: the jobs that wait for them stay
--            waiting}
-- refusals:  none
-- flags: allow-oom
-- uses: keys, batch, record, wakeups, ending, propagation, wake_takers, relink
local entries = redis.call('ZRANGE', P .. 'restoring', 0, tonumber(ARGV[2]) - 1, 'WITHSCORES')
local looked_at = 0
for i = 1, #entries, 2 do
  if entries[i + 1] ~= entries[2] or looked_at > LINKED_PER_CALL then break end -- one phase at a time
  looked_at = looked_at + reunite(entries[i], tonumber(entries[i + 1]))
end
flush()
ring_all()
trim_histories()
return {redis.call('EXISTS', P .. 'restoring'), unknown_awaited()}
