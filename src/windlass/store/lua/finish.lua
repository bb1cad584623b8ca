-- Ends jobs well. The result is kept when the job says so. A job with members that have not ended waits for them.
-- arguments: ARGV[1] clock offset; then per job: id, token (0: whoever holds it), result with its codec ('': none)
-- returns:   per job 'ok', 'waiting' (it handed over), 'failed' or 'cancelled' (as its members' ends demand), or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
-- uses: batch, ring, ending, reports
local answers = {}
for i = 2, #ARGV, 3 do table.insert(answers, finish(ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2])) end
flush()
ring_all()
trim_histories()
return answers
