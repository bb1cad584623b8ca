-- Return schedules by name.
-- arguments: names
-- returns:   per schedule {field, value, ...}, empty when there is none
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'
local script = require 'script'

return function(arguments)
  return script.map(arguments, 2, 1, function(name) return redis.call('HGETALL', keys.schedule(name)) end)
end
