-- The recoverer's step: return expired leases, collect execution timeouts for a decision, repeat lost wakeups, and take
-- jobs back from silent workers.
-- arguments: most_queues, most_jobs (per queue)
-- returns:   {now, leases returned, next instant (0: none), {id + record without payload, ... of timed-out jobs}}
-- refusals:  none
-- flags: allow-oom
local STATE = require('constants').STATE
local batch = require 'batch'
local clock = require 'clock'
local due = require 'due'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local keys = require 'keys'
local expiry = require 'leases.expiry'
local pending_callbacks = require 'pending_callbacks'
local configuration = require 'queues.configuration'
local push_workers = require 'workers.push_workers'
local wake_takers = require 'workers.wake_takers'
local wakeups = require 'workers.wakeups'

-- Return expired leases of a queue, and list its timed-out jobs. Returns the number of leases.
local function recover_queue(queue, most_jobs, timed_out)
  local lost = expiry.recover_overdue(queue, most_jobs)
  for _, id in ipairs(expiry.due_ids('running', queue, most_jobs)) do
    local job = record.load(id)
    if job and expiry.is_timed_out(job) then table.insert(timed_out, id .. job.raw) end
  end
  expiry.reset_timer('lease', queue, 'running')
  return lost
end

local function has_work(queue)
  if queue == pending_callbacks.PLACE and pending_callbacks.is_due() then return true end
  if queue == push_workers.PLACE and push_workers.exist() then return true end
  return not configuration.of(queue).is_paused
    and redis.call('EXISTS', keys.ready(queue), keys.heads(queue), keys.room(queue)) > 0
end

-- A wakeup may have gone to a process that died: while there is work, all waiters are woken.
local function repeat_wakeups(queue)
  redis.call('ZREM', keys.timer('ring'), queue)
  local wakes = has_work(queue)
  while wakes and wakeups.wake(queue, nil) do end
end

local function lose_lease(job)
  local is_running = job.state == STATE.running
  if is_running and (job.deadline == 0 or job.deadline > clock.now_ms) then job.deadline = clock.now_ms end
  expiry.lose_lease(job)
end

-- Take jobs back from a silent worker. Returns the number of its leases.
local function recover_worker(worker, most_jobs)
  local ids, returned = redis.call('ZRANGE', keys.worker_jobs(worker), 0, most_jobs - 1), 0
  for _, id in ipairs(ids) do
    local job = record.load(id)
    if job and record.is_leased(job) and not record.has(job, 'retakeable') then
      lose_lease(job)
      returned = returned + 1
    end
    -- A retake job keeps running until another worker takes it, but its worker is lost.
    batch.z_remove(keys.worker_jobs(worker), id)
  end
  batch.flush()
  if #ids < most_jobs then
    redis.call('ZREM', keys.workers(), worker)
    redis.call('DEL', keys.worker(worker))
    push_workers.forget(worker)
  end
  return returned
end

return function(_, most_queues, most_jobs)
  most_queues, most_jobs = tonumber(most_queues), tonumber(most_jobs)
  local returned, timed_out = 0, {}
  for _, queue in ipairs(due.members(keys.timer('lease'), most_queues)) do
    returned = returned + recover_queue(queue, most_jobs, timed_out)
  end
  for _, queue in ipairs(due.members(keys.timer('ring'), most_queues)) do repeat_wakeups(queue) end
  for _, worker in ipairs(due.members(keys.workers(), most_queues)) do
    returned = returned + recover_worker(worker, most_jobs)
  end
  wake_takers.wake_all()
  ending.trim_histories()
  local following = due.earliest(keys.timer('lease'), keys.timer('ring'), keys.workers())
  return {clock.now_ms, returned, due.answer(following), timed_out}
end
