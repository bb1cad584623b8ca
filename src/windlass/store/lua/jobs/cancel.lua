-- Cancels jobs: one that waits ends at once; one that runs is asked to stop, durably. A cancel reaches the members.
-- arguments: ARGV[1] clock offset; then per job: id, reason, '1' when siblings that wait keep its parent waiting,
--            '1' when a failed job becomes cancelled too, '1' when one that runs is left alone
-- returns:   per job 'cancelled', 'requested' or a refusal
-- refusals:  unknown_job, already_ended, wrong_state (it runs, and is left alone)
-- flags: allow-oom
-- uses: batch, ending, cancel_job, propagation, wake_takers
local answers = {}
for i = 2, #ARGV, 5 do table.insert(answers, cancel(unpack(ARGV, i, i + 4))) end
flush()
ring_all()
trim_histories()
return answers
