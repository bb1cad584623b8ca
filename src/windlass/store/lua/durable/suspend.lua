-- End runs whose code waits. The job keeps its attempt, and its conditions are stored as steps. If one is already met,
-- the job is queued again at once. A requested cancel ends it.
-- arguments: per job: id, token, waits (suspension.lua)
-- returns:   per job 'suspended', 'queued', 'cancelled' or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state, steps_full, too_many_suspensions
-- flags: allow-oom
local commit = require 'commit'
local suspension = require 'durable.suspension'
local script = require 'script'

return function(arguments)
  local answers = script.map(arguments, 2, 3, function(id, token, waits)
    return suspension.suspend(id, tonumber(token), waits)
  end)
  commit.run()
  return answers
end
