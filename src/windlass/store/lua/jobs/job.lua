-- Return jobs with their unsuccessful attempts. Read-only.
-- arguments: ARGV[1] clock offset; then ids
-- returns:   per job {record, {attempt, ...}} or a refusal
-- refusals:  unknown_job, already_ended
-- flags: no-writes
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local keys = require 'keys'

return function(arguments)
  local answers = {}
  for i = 2, #arguments do
    local id = arguments[i]
    local raw = redis.call('GET', keys.job(id))
    if raw then
      local job = record.decode(id, raw)
      local attempts = record.has(job, 'has_attempts') and redis.call('LRANGE', keys.attempts(id), 0, -1) or {}
      table.insert(answers, {raw, attempts})
    else
      table.insert(answers, ending.missing(id))
    end
  end
  return answers
end
