-- Return jobs with their unsuccessful attempts. Read-only.
-- arguments: ARGV[1] clock offset; then ids
-- returns:   per job {record, {attempt, ...}} or a refusal
-- refusals:  unknown_job, already_ended
-- flags: no-writes
-- uses: keys, record, ending
local answers = {}
for i = 2, #ARGV do
  local id = ARGV[i]
  local raw = redis.call('GET', job_key(id))
  if raw then
    local r = decode(id, raw)
    local attempts = has(r, 'has_attempts') and redis.call('LRANGE', P .. 'a:' .. id, 0, -1) or {}
    table.insert(answers, {raw, attempts})
  else
    table.insert(answers, missing(id))
  end
end
return answers
