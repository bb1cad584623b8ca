-- Cancels jobs: one that waits ends at once; one that runs is asked to stop, durably. A cancel reaches the members.
-- arguments: ARGV[1] clock offset; then per job: id, reason, '1' when siblings that wait keep its parent waiting
-- returns:   per job 'cancelled', 'requested' or a refusal
-- refusals:  unknown_job, already_ended
-- flags: allow-oom
-- uses: batch, record, ring, ending, cancelling, family
local function cancel(id, reason, counts_waiting)
  local r = load(id)
  if not r then return missing(id) end
  if is_ended(r) then return 'already_ended' end
  return cancel_job(r, reason, counts_waiting ~= '1')
end

local answers = {}
for i = 2, #ARGV, 3 do table.insert(answers, cancel(ARGV[i], ARGV[i + 1], ARGV[i + 2])) end
flush()
ring_all()
trim_histories()
return answers
