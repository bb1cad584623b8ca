-- A person sends failed or cancelled jobs on their way again, with all attempts anew.
-- arguments: ARGV[1] clock offset; then ids
-- returns:   per job 'queued' or a refusal
-- refusals:  unknown_job, already_ended, wrong_state, unique_conflict, unsettled
-- flags: allow-oom
-- uses: batch, record, ring, ending, revival, offers
local function retry(id)
  local r = load(id)
  if not r then return missing(id) end
  if r.state ~= STATE.failed and r.state ~= STATE.cancelled then return 'wrong_state' end
  return revive(r)
end

local answers = {}
for i = 2, #ARGV do table.insert(answers, retry(ARGV[i])) end
flush()
ring_all()
return answers
