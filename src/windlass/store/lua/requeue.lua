-- Puts jobs back into their queue whatever their state; a lease on them ends.
-- arguments: ARGV[1] clock offset; then per job: id, '1' to give the attempt back
-- returns:   per job 'queued' or a refusal
-- refusals:  unknown_job, already_ended, unique_conflict, wrong_state (a group), unsettled
-- flags: allow-oom
-- uses: batch, record, kin, ring, place, ending, revival, family, offers
local function requeue(id, gives_back)
  local r = load(id)
  if not r then return missing(id) end
  if is_ended(r) then return revive(r) end
  if has(r, 'joins') then return 'wrong_state' end
  if r.state == STATE.waiting and is_unsettled(id, 'f0', 'f1') then return 'unsettled' end
  if is_leased(r) and gives_back == '1' then r.attempt = math.max(0, r.attempt - 1) end
  leave(r)
  unmark(r, 'cancel_requested')
  unmark(r, 'held')
  r.token, r.deadline, r.worker = 0, 0, NOBODY
  r.state, r.ready_at = STATE.queued, r.created_at
  enter(r)
  save(r)
  return 'queued'
end

local answers = {}
for i = 2, #ARGV, 2 do table.insert(answers, requeue(ARGV[i], ARGV[i + 1])) end
flush()
ring_all()
return answers
