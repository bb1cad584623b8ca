-- Cancels jobs: one that waits ends at once; one that runs is asked to stop, durably.
-- arguments: ARGV[1] clock offset; then per job: id, reason
-- returns:   per job 'cancelled', 'requested' or a refusal
-- refusals:  unknown_job, already_ended
-- flags: allow-oom
-- uses: batch, ending, cancelling, offers
local answers = {}
for i = 2, #ARGV, 2 do table.insert(answers, cancel(ARGV[i], ARGV[i + 1])) end
flush()
ring_all()
trim_histories()
return answers
