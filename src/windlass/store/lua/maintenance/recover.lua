-- The recoverer's step: return expired leases, collect execution timeouts for a decision, repeat lost wakeups, and take
-- jobs back from silent workers.
-- arguments: ARGV[1] clock offset, [2] most queues, [3] most jobs per queue
-- returns:   {now, leases returned, next instant (0: none), {id + record without payload, ... of timed-out jobs}}
-- refusals:  none
-- flags: allow-oom
local STATE = require('constants').STATE
local batch = require 'batch'
local clock = require 'clock'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local keys = require 'keys'
local expiry = require 'leases.expiry'
local pending_callbacks = require 'pending_callbacks'
local configuration = require 'queues.configuration'
local push_workers = require 'workers.push_workers'
local wake_takers = require 'workers.wake_takers'
local wakeups = require 'workers.wakeups'

return function(arguments)
  local most_queues, most_jobs = tonumber(arguments[2]), tonumber(arguments[3])
  local returned, timed_out = 0, {}

  local function due_of(timer) return redis.call('ZRANGEBYSCORE', keys.named(timer), '-inf', clock.now_ms, 'LIMIT', 0, most_queues) end

  for _, queue in ipairs(due_of('timers:lease')) do
    local lost = expiry.recover_overdue(queue, most_jobs)
    returned = returned + lost
    for _, id in ipairs(expiry.due_ids('running', queue, most_jobs)) do
      local job = record.load(id)
      if job and expiry.is_timed_out(job) then table.insert(timed_out, id .. job.raw) end
    end
    expiry.reset_timer('lease', queue, 'running')
  end
  -- A wakeup may have gone to a process that died: while there is work, all waiters are woken.
  for _, queue in ipairs(due_of('timers:ring')) do
    redis.call('ZREM', keys.timer('ring'), queue)
    local has_work = queue == pending_callbacks.PLACE and pending_callbacks.is_due() or queue == push_workers.PLACE and push_workers.exist() or not configuration.of(queue).is_paused
      and redis.call('EXISTS', keys.ready(queue), keys.heads(queue), keys.room(queue)) > 0
    while has_work and wakeups.wake(queue, nil) do end
  end
  for _, worker in ipairs(redis.call('ZRANGEBYSCORE', keys.workers(), '-inf', clock.now_ms, 'LIMIT', 0, most_queues)) do
    local held_ids = redis.call('ZRANGE', keys.worker_jobs(worker), 0, most_jobs - 1)
    for _, id in ipairs(held_ids) do
      local job = record.load(id)
      if job and record.is_leased(job) and not record.has(job, 'retakeable') then
        if job.state == STATE.running and (job.deadline == 0 or job.deadline > clock.now_ms) then job.deadline = clock.now_ms end
        expiry.lose_lease(job)
        returned = returned + 1
      end
      -- A retake job keeps running until another worker takes it, but its worker is lost.
      batch.z_remove(keys.worker_jobs(worker), id)
    end
    batch.flush()
    if #held_ids < most_jobs then
      redis.call('ZREM', keys.workers(), worker)
      redis.call('DEL', keys.worker(worker))
      push_workers.forget(worker)
    end
  end
  wake_takers.wake_all()
  ending.trim_histories()
  local following = math.huge
  for _, timer in ipairs({'timers:lease', 'timers:ring', 'workers'}) do
    local first = redis.call('ZRANGE', keys.named(timer), 0, 0, 'WITHSCORES')
    if first[2] then following = math.min(following, tonumber(first[2])) end
  end
  return {clock.now_ms, returned, following < math.huge and following or 0, timed_out}
end
