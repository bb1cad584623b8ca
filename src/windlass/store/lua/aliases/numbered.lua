-- The ids of jobs that got a number later.
-- arguments: ARGV[1] clock offset; then numbers
-- returns:   per number the id, or a refusal
-- refusals:  unknown_job
-- flags: no-writes
-- uses: keys
local answers = {}
for i = 2, #ARGV do answers[i - 1] = redis.call('HGET', P .. 'numbered', ARGV[i]) or 'unknown_job' end
return answers
