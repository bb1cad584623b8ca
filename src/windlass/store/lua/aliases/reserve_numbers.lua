-- Reserve numbers for jobs that will be created under them. Numbers are not reused.
-- arguments: ARGV[1] clock offset; then per caller how many
-- returns:   per caller the first of its consecutive numbers
-- refusals:  none
local keys = require 'keys'

return function(arguments)
  local total = 0
  for i = 2, #arguments do total = total + tonumber(arguments[i]) end
  local first, answers = redis.call('INCRBY', keys.number(), total) - total + 1, {}
  for i = 2, #arguments do
    answers[i - 1] = first
    first = first + tonumber(arguments[i])
  end
  return answers
end
