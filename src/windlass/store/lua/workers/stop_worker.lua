-- Ask a worker to stop gracefully: it learns of it with its next heartbeat. No more jobs are pushed to it.
-- arguments: worker (16 bytes)
-- returns:   1, or 0 when it was asked before
-- refusals:  unknown_worker
-- flags: allow-oom
local clock = require 'clock'
local keys = require 'keys'
local push_workers = require 'workers.push_workers'

return function(_, worker)
  local key = keys.worker(worker)
  local beat_ms, push = unpack(redis.call('HMGET', key, 'beat_ms', 'push'))
  if not beat_ms then return 'unknown_worker' end
  if push and push ~= '' then push_workers.describe(worker, '') end
  return redis.call('HSETNX', key, 'stopping', clock.now_ms)
end
