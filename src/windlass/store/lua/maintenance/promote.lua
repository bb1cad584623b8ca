-- The scheduler's step: queue scheduled jobs whose time has come, and continue pending steps on dependencies.
-- arguments: ARGV[1] clock offset, [2] most queues, [3] most jobs per queue
-- returns:   {now, jobs moved, next due instant (0: none; now: steps are left)}
-- refusals:  none
-- flags: allow-oom
local clock = require 'clock'
local propagation = require 'dependencies.propagation'
local ending = require 'jobs.ending'
local keys = require 'keys'
local expiry = require 'leases.expiry'
local wake_takers = require 'workers.wake_takers'

return function(arguments)
  local moved = 0
  for _, queue in ipairs(redis.call('ZRANGEBYSCORE', keys.timer('due'), '-inf', clock.now_ms, 'LIMIT', 0, tonumber(arguments[2]))) do
    moved = moved + expiry.promote(queue, tonumber(arguments[3]))
  end
  local _, is_left = propagation.continue_steps()
  wake_takers.wake_all()
  ending.trim_histories()
  local first = redis.call('ZRANGE', keys.timer('due'), 0, 0, 'WITHSCORES')
  return {clock.now_ms, moved, is_left and clock.now_ms or tonumber(first[2] or 0)}
end
