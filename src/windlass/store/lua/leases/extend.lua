-- Extend leases (heartbeat of their holders), many in one call.
-- arguments: ARGV[1] clock offset, [2] lease_ms (0: the job's or the queue's); then per job: id, token
-- returns:   per job {deadline (0: none), 1 when its cancel was requested} or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
-- uses: batch, record, reports, leasing
local function extend(id, token)
  local r, refused = held(id, token)
  if not r then return refused end
  refused = renew(r, tonumber(ARGV[2]))
  if refused then return refused end
  return {r.deadline, has(r, 'cancel_requested') and 1 or 0}
end

local answers = {}
for i = 3, #ARGV, 2 do table.insert(answers, extend(ARGV[i], tonumber(ARGV[i + 1]))) end
flush()
return answers
