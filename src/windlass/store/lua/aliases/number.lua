-- Return the numbers of jobs that were not created under a number. Assigns a number to each job that has none.
-- arguments: ARGV[1] clock offset; then ids
-- returns:   per job its number as text, or a refusal
-- refusals:  unknown_job, already_ended
-- flags: allow-oom
-- uses: keys, batch, record, ending, numbers
local answers = {}
for i = 2, #ARGV do
  local r = load(ARGV[i])
  if not r then
    answers[i - 1] = missing(ARGV[i])
  elseif has(r, 'has_number') then
    answers[i - 1] = redis.call('HGET', P .. 'numbers', r.id)
  else
    answers[i - 1] = give_number(r)
    save(r)
  end
end
flush()
return answers
