-- Return the queues of jobs. Reads only the head of each record, so a large payload adds no cost.
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
