-- Cancels jobs: one that waits ends at once; one that runs is asked to stop, durably. A cancel reaches the members.
-- arguments: ARGV[1] clock offset; then per job: id, reason, '1' when siblings that wait keep its parent waiting,
--            '1' when a failed job becomes cancelled too
-- returns:   per job 'cancelled', 'requested' or a refusal
-- refusals:  unknown_job, already_ended
-- flags: allow-oom
-- uses: batch, ending, cancelling, family, offers
local answers = {}
for i = 2, #ARGV, 4 do table.insert(answers, cancel(unpack(ARGV, i, i + 3))) end
flush()
ring_all()
trim_histories()
return answers
