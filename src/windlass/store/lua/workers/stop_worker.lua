-- Ask a worker to stop gracefully: it learns of it with its next heartbeat. No more jobs are pushed to it.
-- arguments: ARGV[1] clock offset, [2] worker (16 bytes)
-- returns:   1, or 0 when it was asked before
-- refusals:  unknown_worker
-- flags: allow-oom
local clock = require 'clock'
local keys = require 'keys'
local push_workers = require 'workers.push_workers'

return function(arguments)
  local key = keys.worker(arguments[2])
  local said = redis.call('HMGET', key, 'beat_ms', 'push')
  if not said[1] then return 'unknown_worker' end
  if said[2] and said[2] ~= '' then push_workers.describe(arguments[2], '') end
  return redis.call('HSETNX', key, 'stopping', clock.now_ms)
end
