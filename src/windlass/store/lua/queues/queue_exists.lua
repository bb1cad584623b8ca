-- Report whether queues exist: they hold something or are configured, a taker waits for them, or they were used within
-- two days.
-- arguments: queues
-- returns:   {1 or 0, ... per queue}
-- refusals:  none
-- flags: no-writes
local clock = require 'clock'
local keys = require 'keys'
local contents = require 'queues.contents'
local script = require 'script'

return function(arguments)
  return script.map(arguments, 2, 1, function(queue)
    if redis.call('SISMEMBER', keys.queues(), queue) == 1 then return 1 end
    if redis.call('ZCOUNT', keys.waiters(queue), clock.now_ms, '+inf') > 0 then return 1 end
    return redis.call('EXISTS', unpack(contents.hour_keys(queue))) > 0 and 1 or 0
  end)
end
