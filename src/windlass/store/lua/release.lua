-- Gives jobs back unworked: same place, no attempt spent.
-- arguments: ARGV[1] clock offset; then per job: id, token (0: whoever holds it)
-- returns:   per job 'queued', 'scheduled', 'cancelled' (a cancel was requested) or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
-- uses: batch, record, ring, tally, ending, reports
local function release(id, token)
  local r, refused = held(id, token)
  if not r then return refused end
  if has(r, 'cancel_requested') then
    tally(r.queue, 'cancelled', 1)
    end_job(r, STATE.cancelled)
    return 'cancelled'
  end
  r.attempt = math.max(0, r.attempt - 1)
  put_back(r)
  return r.state == STATE.queued and 'queued' or 'scheduled'
end

local answers = {}
for i = 2, #ARGV, 2 do table.insert(answers, release(ARGV[i], tonumber(ARGV[i + 1]))) end
flush()
ring_all()
trim_histories()
return answers
