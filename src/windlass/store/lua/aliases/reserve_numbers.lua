-- Reserve numbers for jobs that will be created under them. Numbers are not reused.
-- arguments: ARGV[1] clock offset; then per caller how many
-- returns:   per caller the first of its consecutive numbers
-- refusals:  none
-- uses: keys
local total = 0
for i = 2, #ARGV do total = total + tonumber(ARGV[i]) end
local first, answers = redis.call('INCRBY', P .. 'number', total) - total + 1, {}
for i = 2, #ARGV do
  answers[i - 1] = first
  first = first + tonumber(ARGV[i])
end
return answers
