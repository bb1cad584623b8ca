-- End the wait of jobs now, whatever they wait for. A group finishes.
-- arguments: ARGV[1] clock offset; then ids
-- returns:   per job 'queued', 'scheduled', 'finished' (a group) or a refusal
-- refusals:  unknown_job, already_ended, wrong_state (it is not waiting), unsettled
-- flags: allow-oom
-- uses: batch, record, dependencies, wakeups, ending, propagation, wake_takers
local function wake(id)
  local r = load(id)
  if not r then return missing(id) end
  if r.state ~= STATE.waiting then return 'wrong_state' end
  if is_unsettled(id, 'f0', 'f1') then return 'unsettled' end
  return end_wait(r)
end

local answers = {}
for i = 2, #ARGV do table.insert(answers, wake(ARGV[i])) end
flush()
ring_all()
trim_histories()
return answers
