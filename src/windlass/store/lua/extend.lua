-- Heartbeat: moves the deadlines of leases ahead, many in one call.
-- arguments: ARGV[1] clock offset, [2] lease_ms (0: the job's or the queue's); then per job: id, token
-- returns:   per job {deadline (0: none), 1 when it is asked to stop} or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
-- uses: clock, batch, record, limits, place, reports, leasing
local function extend(id, token)
  local r, refused = held(id, token)
  if not r then return refused end
  if r.state == STATE.running and r.deadline > 0 then
    if has(r, 'retakeable') then
      -- Its place under the limits was free for others meanwhile.
      if full_limit(r.queue, links_of(r).limits) then return 'stale_lease' end
      leave_lane(r)
      unmark(r, 'retakeable')
    end
    local deadline = deadline_of(r, {lease_ms = tonumber(ARGV[2])})
    r.deadline = deadline > 0 and math.max(r.deadline, deadline) or 0
    save(r)
    enter_running(r)
  end
  return {r.deadline, has(r, 'cancel_requested') and 1 or 0}
end

local answers = {}
for i = 3, #ARGV, 2 do table.insert(answers, extend(ARGV[i], tonumber(ARGV[i + 1]))) end
flush()
return answers
