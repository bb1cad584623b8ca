-- Return the oldest holder of a unique key. Read-only.
-- arguments: ARGV[1] clock offset; then per key: queue, key
-- returns:   per key the holder's id, or a refusal
-- refusals:  unknown_job (the key has no holder)
-- flags: no-writes
local unique_keys = require 'jobs.unique_keys'

return function(arguments)
  local answers = {}
  for i = 2, #arguments, 2 do
    local job = unique_keys.oldest_holder({queue = arguments[i], unique = arguments[i + 1]})
    answers[i / 2] = job and job.id or 'unknown_job'
  end
  return answers
end
