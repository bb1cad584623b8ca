-- Return counts and ages of queues, read from the indexes.
-- arguments: queues
-- returns:   {now, {{queued, scheduled, waiting, running, finished, failed, cancelled, history, bytes, lanes, waiting
--            takers, ready time of the oldest queued job (0: none), next due time (0: none), blocked lanes, 1 when it
--            is paused, failed jobs that failed because of another job, suspended}, ... per queue}}
-- refusals:  none
-- flags: no-writes
local clock = require 'clock'
local keys = require 'keys'
local script = require 'script'

local BANDS = 64 -- distinct priorities that are searched for the oldest job

local function size(kind, queue) return redis.call('ZCARD', keys.of_queue(kind, queue)) end

-- The first job of each priority is its oldest. The priorities are visited one by one.
local function oldest_in(key)
  local oldest, from = math.huge, '-inf'
  for _ = 1, BANDS do
    local first = redis.call('ZRANGEBYSCORE', key, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if not first[1] then break end
    oldest = math.min(oldest, struct.unpack('>I6', first[1]) or oldest)
    from = '(' .. first[2]
  end
  return oldest
end

local function first_score(key)
  return tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2] or math.huge)
end

local function stats_of(queue)
  local oldest = math.min(oldest_in(keys.ready(queue)), oldest_in(keys.laned(queue)))
  local due = math.min(first_score(keys.scheduled(queue)), first_score(keys.suspended(queue)))
  return {
    size('ready', queue) + size('laned', queue), size('scheduled', queue), size('waiting', queue),
    size('running', queue), size('finished', queue), size('failed', queue), size('cancelled', queue),
    size('history', queue), tonumber(redis.call('HGET', keys.queue(queue), 'bytes') or 0), size('heads', queue),
    size('waiters', queue), oldest < math.huge and oldest or 0, due < math.huge and due or 0,
    redis.call('HLEN', keys.blocked_by(queue)), redis.call('HEXISTS', keys.queue(queue), 'paused'),
    tonumber(redis.call('HGET', keys.queue(queue), 'consequences') or 0), size('suspended', queue),
  }
end

return function(arguments)
  return {clock.now_ms, script.map(arguments, 2, 1, stats_of)}
end
