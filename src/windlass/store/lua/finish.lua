-- Ends jobs well. The result is kept when the job says so. A job with members that have not ended waits for them; one that
-- repeats goes back to wait for its next run.
-- arguments: ARGV[1] clock offset; then per job: id, token (0: whoever holds it), result with its codec ('': none),
--            next run: '' (to be asked for), 'end', 'never' or an instant; revision that the instant was computed from
-- returns:   per job 'ok', 'waiting' (it handed over), 'failed' or 'cancelled' (as its members' ends demand), a refusal, or
--            for one that repeats {rule, planned instant, start, now, revision}: nothing was changed, and the next run has
--            to be computed
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
-- first: finish_plainly
-- uses: batch, ring, ending, reports, offers, plain_finish
local answers = {}
for i = 2, #ARGV, 5 do
  table.insert(answers, finish(ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2], ARGV[i + 3], tonumber(ARGV[i + 4])))
end
flush()
ring_all()
trim_histories()
return answers
