-- Put jobs back into their queue from any state. A lease on them ends.
-- arguments: ARGV[1] clock offset, [2] '1' to give attempts back, [3] version of the limits; then per job: id, revision
--            at which it was read, limits
-- returns:   per job 'queued' or a refusal
-- refusals:  unknown_job, already_ended, unique_conflict, wrong_state (a group), unsettled, limits_changed (match
--            again)
-- flags: allow-oom
-- uses: keys, batch, record, limits, dependencies, wakeups, index, ending, requeued, propagation, wake_takers
local is_stale = have_limits_changed(ARGV[3])

local function requeue(id, revision, limits)
  local r = load(id)
  if not r then return missing(id) end
  if is_ended(r) then return revive(r, revision, limits) end
  if has(r, 'joins') then return 'wrong_state' end
  if r.state == STATE.waiting and is_unsettled(id, 'f0', 'f1') then return 'unsettled' end
  if is_leased(r) and ARGV[2] == '1' then r.attempt = math.max(0, r.attempt - 1) end
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
for i = 4, #ARGV, 3 do
  table.insert(answers, is_stale and 'limits_changed' or requeue(ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]))
end
flush()
ring_all()
return answers
