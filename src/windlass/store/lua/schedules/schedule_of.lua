-- Return schedules by name.
-- arguments: ARGV[1] clock offset; then names
-- returns:   per schedule {field, value, ...}, empty when there is none
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'

return function(arguments)
  local answers = {}
  for i = 2, #arguments do answers[i - 1] = redis.call('HGETALL', keys.schedule(arguments[i])) end
  return answers
end
