-- Return the queues of jobs that have ended and were removed, for jobs that left a tombstone (lib/jobs/tombstones.lua).
-- arguments: ids
-- returns:   per job {queue} or a refusal
-- refusals:  unknown_job
-- flags: no-writes
local tombstones = require 'jobs.tombstones'
local script = require 'script'

return function(arguments)
  return script.map(arguments, 2, 1, function(id)
    local queue = tombstones.queue_of(id)
    return queue and {queue} or 'unknown_job'
  end)
end
