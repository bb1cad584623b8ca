-- Set the limits that jobs match now, after the limits have changed.
-- arguments: ARGV[1] clock offset, [2] version of the limits; then per job: id, revision at which it was read, limits
-- returns:   per job 'ok' or a refusal; a job with a revision_conflict was matched when it was edited
-- refusals:  unknown_job, already_ended, revision_conflict, limits_changed (match again)
-- flags: allow-oom
-- uses: keys, batch, record, lanes, limits, caps, wakeups, index, ending, wake_takers
local is_stale = have_limits_changed(ARGV[2])

local function rematch(id, revision, limits)
  local r = load(id)
  if not r then return missing(id) end
  if is_ended(r) then return 'already_ended' end
  if r.revision ~= revision then return 'revision_conflict' end
  local stands_in_lane = r.state == STATE.queued or has(r, 'retakeable')
  local payload = payload_of(r)
  if stands_in_lane then leave_lane(r) end
  change_limits(r, limits)
  if stands_in_lane then enter_lane(r) end
  rewrite(r, payload)
  return 'ok'
end

local answers = {}
for i = 3, #ARGV, 3 do
  table.insert(answers, is_stale and 'limits_changed' or rematch(ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]))
end
flush()
ring_all()
return answers
