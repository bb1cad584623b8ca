-- Return the ids of jobs whose number was assigned later (operation number).
-- arguments: numbers
-- returns:   per number the job's id, or a refusal
-- refusals:  unknown_job
-- flags: no-writes
local keys = require 'keys'
local script = require 'script'

return function(arguments)
  return script.map(arguments, 2, 1, function(number)
    return redis.call('HGET', keys.numbered(), number) or 'unknown_job'
  end)
end
