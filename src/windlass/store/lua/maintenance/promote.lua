-- The scheduler's step: queue scheduled jobs whose time has come, and continue pending steps on dependencies.
-- arguments: most_queues, most_jobs (per queue)
-- returns:   {now, jobs moved, next due instant (0: none; now: steps are left)}
-- refusals:  none
-- flags: allow-oom
local clock = require 'clock'
local propagation = require 'dependencies.propagation'
local due = require 'due'
local ending = require 'jobs.ending'
local keys = require 'keys'
local expiry = require 'leases.expiry'
local wake_takers = require 'workers.wake_takers'

return function(_, most_queues, most_jobs)
  most_jobs = tonumber(most_jobs)
  local moved = 0
  for _, queue in ipairs(due.members(keys.timer('due'), tonumber(most_queues))) do
    moved = moved + expiry.promote(queue, most_jobs)
  end
  local _, is_left = propagation.continue_steps()
  wake_takers.wake_all()
  ending.trim_histories()
  return {clock.now_ms, moved, is_left and clock.now_ms or due.answer(due.earliest(keys.timer('due')))}
end
