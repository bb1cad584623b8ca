-- Return all limits of a partition, and the indexed payload fields of its queues, for callers that match jobs.
-- arguments: none
-- returns:   {version, version whose jobs are still being matched again (0: none), {number, kind, amount and burst +
--            definition, ...}, {queue, its indexed fields joined by \2, ...}}
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'
local queue_index = require 'queues.queue_index'

return function()
  return {
    tonumber(redis.call('GET', keys.limits_version()) or 0), tonumber(redis.call('GET', keys.rematch()) or 0),
    redis.call('HGETALL', keys.limits()), queue_index.read_all(),
  }
end
