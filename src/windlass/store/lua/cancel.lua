-- Cancels jobs: one that waits ends at once; one that runs is asked to stop, durably. A cancel reaches the members.
-- arguments: ARGV[1] clock offset; then per job: id, reason, '1' when siblings that wait keep its parent waiting,
--            '1' when a failed job becomes cancelled too
-- returns:   per job 'cancelled', 'requested' or a refusal
-- refusals:  unknown_job, already_ended
-- flags: allow-oom
-- uses: batch, record, ring, ending, cancelling, family
local function cancel(id, reason, counts_waiting, even_failed)
  local r = load(id)
  if not r then return missing(id) end
  if r.state == STATE.failed and even_failed == '1' and not has(r, 'in_history') then
    return call_off(r, counts_waiting ~= '1')
  end
  if is_ended(r) then return 'already_ended' end
  return cancel_job(r, reason, counts_waiting ~= '1')
end

local answers = {}
for i = 2, #ARGV, 4 do table.insert(answers, cancel(unpack(ARGV, i, i + 3))) end
flush()
ring_all()
trim_histories()
return answers
