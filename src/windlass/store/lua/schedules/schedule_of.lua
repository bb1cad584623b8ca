-- Return schedules by name.
-- arguments: names
-- returns:   per schedule {field, value, ...}, empty when there is none; the field last_jobs has a list of ids
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'
local script = require 'script'

return function(arguments)
  return script.map(arguments, 2, 1, function(name)
    local fields = redis.call('HGETALL', keys.schedule(name))
    if #fields == 0 then return fields end
    fields[#fields + 1] = 'last_jobs'
    fields[#fields + 1] = redis.call('LRANGE', keys.schedule_jobs(name), 0, -1)
    return fields
  end)
end
