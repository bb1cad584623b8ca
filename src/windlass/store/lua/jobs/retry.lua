-- Queue failed or cancelled jobs again, with all of their attempts, at the request of a person.
-- arguments: ARGV[1] clock offset, [2] version of the limits; then per job: id, revision at which it was read, limits
-- returns:   per job 'queued' or a refusal
-- refusals:  unknown_job, already_ended, wrong_state, unique_conflict, unsettled, limits_changed (match again)
-- flags: allow-oom
-- uses: keys, batch, record, limits, wakeups, ending, requeued, wake_takers
local is_stale = have_limits_changed(ARGV[2])

local function retry(id, revision, limits)
  local r = load(id)
  if not r then return missing(id) end
  if r.state ~= STATE.failed and r.state ~= STATE.cancelled then return 'wrong_state' end
  return revive(r, revision, limits)
end

local answers = {}
for i = 3, #ARGV, 3 do
  table.insert(answers, is_stale and 'limits_changed' or retry(ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]))
end
flush()
ring_all()
return answers
