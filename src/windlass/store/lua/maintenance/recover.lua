-- The recoverer's step: return expired leases, collect execution timeouts for a decision, repeat lost wakeups, and take
-- jobs back from silent workers.
-- arguments: most_queues, most_jobs (per queue), silent_before (take jobs back from workers that were silent by then;
--            negative: by now), look_again_ms (when the caller is needed for other silent workers; 0: at once)
-- returns:   {now, leases returned, next instant (0: none), {id + record without payload, ... of timed-out jobs}}
-- refusals:  none
-- flags: allow-oom
local clock = require 'clock'
local due = require 'due'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local keys = require 'keys'
local expiry = require 'leases.expiry'
local pending_callbacks = require 'pending_callbacks'
local configuration = require 'queues.configuration'
local push_workers = require 'workers.push_workers'
local silent_workers = require 'workers.silent_workers'
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

-- Return the instant at which a caller is needed for a silent worker.
local function next_silence(look_again_ms)
  local silent_at = due.earliest(keys.workers())
  if silent_at > clock.now_ms or look_again_ms == 0 then return silent_at end
  local from = '(' .. clock.now_ms
  local following = redis.call('ZRANGEBYSCORE', keys.workers(), from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return math.min(clock.now_ms + look_again_ms, tonumber(following[2] or math.huge))
end

return function(_, most_queues, most_jobs, silent_before, look_again_ms)
  most_queues, most_jobs = tonumber(most_queues), tonumber(most_jobs)
  silent_before = tonumber(silent_before) < 0 and clock.now_ms or tonumber(silent_before)
  local returned, timed_out = 0, {}
  for _, queue in ipairs(due.members(keys.timer('lease'), most_queues)) do
    returned = returned + recover_queue(queue, most_jobs, timed_out)
  end
  for _, queue in ipairs(due.members(keys.timer('ring'), most_queues)) do repeat_wakeups(queue) end
  for _, worker in ipairs(due.members(keys.workers(), most_queues, silent_before)) do
    returned = returned + silent_workers.recover(worker, most_jobs, 'lease_expired', '')
  end
  wake_takers.wake_all()
  ending.trim_histories()
  local following = math.min(due.earliest(keys.timer('lease'), keys.timer('ring')),
    next_silence(tonumber(look_again_ms)))
  return {clock.now_ms, returned, due.answer(following), timed_out}
end
