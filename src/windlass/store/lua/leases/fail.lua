-- End attempts unsuccessfully: the job is retried later, fails for good, or confirms a requested cancel.
-- arguments: ARGV[1] clock offset; then per job: id, token (0: the current holder's), 'retry' | 'final' | 'cancelled',
--            delay_ms of the retry, reason, error with its codec ('': none)
-- returns:   per job 'retried', 'failed', 'cancelled' or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
-- uses: batch, wakeups, ending, reports, wake_takers
local answers = {}
for i = 2, #ARGV, 6 do
  table.insert(answers, fail(ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2], tonumber(ARGV[i + 3]), ARGV[i + 4], ARGV[i + 5]))
end
flush()
ring_all()
trim_histories()
return answers
