-- Pass on a wakeup, for a process that was woken for a queue and has no taker for it.
-- arguments: wakeup_list (of the caller), queue; then filters it no longer waits with
-- returns:   1 when another waiter was woken
-- refusals:  none
-- flags: allow-oom
local record = require 'jobs.record'
local keys = require 'keys'
local pending_callbacks = require 'pending_callbacks'
local selection = require 'queues.selection'
local taker_filter = require 'workers.taker_filter'
local wakeups = require 'workers.wakeups'

local FILTERS_AT = 4
local OFFERED_MAX = 8 -- the wakeup was for one job, but jobs ahead of it may have wakeups that are in transit

-- Wake other waiters for the jobs that match a filter. Returns whether one was woken.
local function wake_others(queue, filter)
  local is_woken = false
  local ids, resume = selection.next_ids(queue, taker_filter.parse(filter), OFFERED_MAX, 0)
  for _, id in ipairs(ids) do
    local job = record.load(id)
    is_woken = job and wakeups.wake(queue, job) or is_woken
  end
  if resume and #ids == 0 then is_woken = wakeups.wake(queue, nil) or is_woken end
  return is_woken
end

return function(arguments, wakeup_list, queue)
  local is_woken = false
  for i = FILTERS_AT, #arguments do redis.call('ZREM', keys.waiters(queue), wakeup_list .. '\1' .. arguments[i]) end
  for i = FILTERS_AT, #arguments do is_woken = wake_others(queue, arguments[i]) or is_woken end
  if queue == pending_callbacks.PLACE and pending_callbacks.is_due() then is_woken = wakeups.wake(queue, nil) end
  return is_woken and 1 or 0
end
