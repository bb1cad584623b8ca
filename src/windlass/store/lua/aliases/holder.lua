-- Return the oldest holder of a unique key. Read-only.
-- arguments: per key: queue, key
-- returns:   per key the holder's id, or a refusal
-- refusals:  unknown_job (the key has no holder)
-- flags: no-writes
local unique_keys = require 'jobs.unique_keys'
local script = require 'script'

local function find_holder(queue, key)
  local job = unique_keys.oldest_holder({queue = queue, unique = key})
  return job and job.id or 'unknown_job'
end

return function(arguments)
  return script.map(arguments, 2, 2, find_holder)
end
