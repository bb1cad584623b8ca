-- Register a worker. Registering again replaces its description.
-- arguments: ARGV[1] clock offset, [2] worker (16 bytes), [3] heartbeat interval in ms, [4] wakeup list ('': none),
--            [5] description, [6] slots \1 queue \1 queue... of a push worker (else '')
-- returns:   now
-- refusals:  none
-- flags: allow-oom
local clock = require 'clock'
local keys = require 'keys'
local push_workers = require 'workers.push_workers'

return function(arguments)
  local key = keys.worker(arguments[2])
  redis.call('HSET', key, 'description', arguments[5], 'beat_ms', arguments[3], 'bell', arguments[4])
  redis.call('HSETNX', key, 'started_at', clock.now_ms)
  redis.call('ZADD', keys.workers(), clock.now_ms + tonumber(arguments[3]), arguments[2])
  push_workers.describe(arguments[2], arguments[6])
  return clock.now_ms
end
