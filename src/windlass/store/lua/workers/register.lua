-- Register a worker. Registering again replaces its description.
-- arguments: worker (16 bytes), beat_ms (heartbeat interval), wakeup_list ('': none), description, push (of a push
--            worker: slots \1 queue \1 queue...; else ''), names (of the jobs that it can run: \0 + names joined by
--            \0 + \0; '': not given)
-- returns:   now
-- refusals:  none
-- flags: allow-oom
local clock = require 'clock'
local keys = require 'keys'
local push_workers = require 'workers.push_workers'

return function(_, worker, beat_ms, wakeup_list, description, push, names)
  local key = keys.worker(worker)
  redis.call('HSET', key, 'description', description, 'beat_ms', beat_ms, 'bell', wakeup_list)
  redis.call('HSETNX', key, 'started_at', clock.now_ms)
  if (names or '') == '' then redis.call('HDEL', key, 'names') else redis.call('HSET', key, 'names', names) end
  redis.call('ZADD', keys.workers(), clock.now_ms + tonumber(beat_ms), worker)
  push_workers.describe(worker, push)
  return clock.now_ms
end
