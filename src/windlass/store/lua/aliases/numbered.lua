-- Return the ids of jobs whose number was assigned later (number.lua).
-- arguments: ARGV[1] clock offset; then numbers
-- returns:   per number the job's id, or a refusal
-- refusals:  unknown_job
-- flags: no-writes
local keys = require 'keys'

return function(arguments)
  local answers = {}
  for i = 2, #arguments do answers[i - 1] = redis.call('HGET', keys.numbered(), arguments[i]) or 'unknown_job' end
  return answers
end
