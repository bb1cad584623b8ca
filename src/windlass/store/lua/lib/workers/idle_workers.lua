-- uses: keys, clock, wakeups
-- Workers that report by messages whether they are idle: until when each may be given a job, and when it last reported.
local function idle_key(queue) return queue_key('idle', queue) end

-- The mark expires with the message that set it: an old message says nothing about now.
local function is_idle_for(queue, worker, for_ms)
  local key = idle_key(queue)
  if for_ms <= 0 then return redis.call('ZREM', key, worker) end
  redis.call('ZADD', key, now_ms + for_ms, worker)
  redis.call('PEXPIRE', key, for_ms, 'NX')
  redis.call('PEXPIRE', key, for_ms, 'GT')
end

-- Return how many workers of a queue may be given a job now.
local function idle_count(queue)
  local key = idle_key(queue)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now_ms)
  return redis.call('ZCARD', key)
end

-- Return any idle worker, and mark it as not idle.
local function next_idle(queue)
  local worker = redis.call('ZRANDMEMBER', idle_key(queue))
  redis.call('ZREM', idle_key(queue), worker)
  return worker
end

-- Note when a worker last reported. The recoverer must learn of a new worker, or it would look too late. Returns
-- whether the worker counts as present.
local function note_heard(worker, description, age_ms, silent_ms)
  if age_ms >= silent_ms then return false end
  local key = P .. 'w:' .. worker
  if redis.call('HGET', key, 'description') ~= description then
    redis.call('HSET', key, 'description', description, 'beat_ms', silent_ms, 'bell', '', 'push', '')
    redis.call('HSETNX', key, 'started_at', now_ms)
  end
  if redis.call('ZADD', P .. 'workers', 'GT', now_ms + silent_ms - age_ms, worker) == 1 then ring('', nil) end
  return true
end
