-- Note the connection of a worker that wants to lose its jobs when the connection drops. It replaces an earlier one.
-- arguments: worker (16 bytes), connection (its id)
-- returns:   1
-- refusals:  unknown_worker
-- flags: allow-oom
local keys = require 'keys'

return function(_, worker, connection)
  local key = keys.worker(worker)
  if redis.call('HEXISTS', key, 'beat_ms') == 0 then return 'unknown_worker' end
  redis.call('HSET', key, 'connection', connection)
  return 1
end
