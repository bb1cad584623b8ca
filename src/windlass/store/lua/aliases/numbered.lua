-- Find jobs by number: a job that was created under the number, or one that got it later (operation number).
-- arguments: ids, as they contain the numbers
-- returns:   per number the job's id, or a refusal
-- refusals:  unknown_job
-- flags: no-writes
local keys = require 'keys'
local numbers = require 'numbers'
local script = require 'script'

return function(arguments)
  return script.map(arguments, 2, 1, function(id)
    if redis.call('EXISTS', keys.job(id)) == 1 then return id end
    local number = numbers.number_in(id)
    return redis.call('HGET', keys.numbered(), string.format('%.0f', number)) or 'unknown_job'
  end)
end
