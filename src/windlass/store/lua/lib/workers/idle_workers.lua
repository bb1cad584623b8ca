-- Workers that report by messages whether they are idle: until when each may be given a job, and when it last reported.
local clock = require 'clock'
local keys = require 'keys'
local wakeups = require 'workers.wakeups'

local idle_workers = {}

-- The mark expires with the message that set it: an old message says nothing about now.
function idle_workers.set_idle(queue, worker, for_ms)
  local key = keys.idle(queue)
  if for_ms <= 0 then return redis.call('ZREM', key, worker) end
  redis.call('ZADD', key, clock.now_ms + for_ms, worker)
  redis.call('PEXPIRE', key, for_ms, 'NX')
  redis.call('PEXPIRE', key, for_ms, 'GT')
end

-- Return how many workers of a queue may be given a job now.
function idle_workers.count(queue)
  local key = keys.idle(queue)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', clock.now_ms)
  return redis.call('ZCARD', key)
end

-- Return any idle worker, and mark it as not idle.
function idle_workers.take_any(queue)
  local worker = redis.call('ZRANDMEMBER', keys.idle(queue))
  redis.call('ZREM', keys.idle(queue), worker)
  return worker
end

-- Note when a worker last reported. The recoverer must learn of a new worker, or it would look too late. Returns
-- whether the worker counts as present.
function idle_workers.note_report(worker, description, age_ms, silent_ms)
  if age_ms >= silent_ms then return false end
  local key = keys.worker(worker)
  if redis.call('HGET', key, 'description') ~= description then
    redis.call('HSET', key, 'description', description, 'beat_ms', silent_ms, 'bell', '', 'push', '')
    redis.call('HSETNX', key, 'started_at', clock.now_ms)
  end
  local is_new = redis.call('ZADD', keys.workers(), 'GT', clock.now_ms + silent_ms - age_ms, worker) == 1
  if is_new then wakeups.wake('', nil) end
  return true
end

return idle_workers
