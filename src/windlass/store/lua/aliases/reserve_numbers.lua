-- Reserve numbers for jobs that will be created under them. Numbers are not reused.
-- arguments: per caller: count (of numbers)
-- returns:   per caller the first of its consecutive numbers
-- refusals:  none
local keys = require 'keys'
local script = require 'script'

return function(arguments)
  local counts, total = script.map(arguments, 2, 1, tonumber), 0
  for _, count in ipairs(counts) do total = total + count end
  local first, answers = redis.call('INCRBY', keys.number(), total) - total + 1, {}
  for i, count in ipairs(counts) do
    answers[i] = first
    first = first + count
  end
  return answers
end
