-- The queues that jobs are in. Reads the head of each record only, so a large payload costs nothing.
-- arguments: ARGV[1] clock offset; then ids
-- returns:   per job {queue} or a refusal
-- refusals:  unknown_job, already_ended
-- flags: no-writes
-- uses: keys, record, ending
local answers = {}
for i = 2, #ARGV do
  local r = load(ARGV[i])
  answers[i - 1] = r and {r.queue} or missing(ARGV[i])
end
return answers
