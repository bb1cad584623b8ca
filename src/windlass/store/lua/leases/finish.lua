-- Ends jobs well. The result is kept when the job says so. A job with members that have not ended waits for them; one that
-- repeats goes back to wait for its next run.
-- arguments: ARGV[1] clock offset; then per job: what reports.lua reads, its next run: '' (to be asked for), 'end', 'never' or
--            an instant
-- returns:   per job 'ok', 'waiting' (it handed over), 'failed' or 'cancelled' (as its members' ends demand), a refusal, or
--            for one that repeats {rule, planned instant, start, now, revision}: nothing was changed, and the next run has
--            to be computed
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
-- first: finish_plainly
-- uses: batch, wakeups, ending, reports, wake_takers, plain_finish
local answers = {}
for i = 2, #ARGV do table.insert(answers, finish(read_finish(ARGV[i]))) end
flush()
ring_all()
trim_histories()
return answers
