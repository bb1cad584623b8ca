-- Give jobs back without working on them: they keep their position, and no attempt is spent.
-- arguments: ARGV[1] clock offset; then per job: id, token (0: the current holder's)
-- returns:   per job 'queued', 'scheduled', 'cancelled' (a cancel was requested) or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
-- uses: batch, wakeups, ending, reports, wake_takers
local function release(id, token)
  local r, refused = held(id, token)
  if not r then return refused end
  return give_back(r)
end

local answers = {}
for i = 2, #ARGV, 2 do table.insert(answers, release(ARGV[i], tonumber(ARGV[i + 1]))) end
flush()
ring_all()
trim_histories()
return answers
