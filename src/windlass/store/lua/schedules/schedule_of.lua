-- Return schedules by name.
-- arguments: ARGV[1] clock offset; then names
-- returns:   per schedule {field, value, ...}, empty when there is none
-- refusals:  none
-- flags: no-writes
-- uses: schedules
local answers = {}
for i = 2, #ARGV do answers[i - 1] = redis.call('HGETALL', schedule_key(ARGV[i])) end
return answers
