-- Pass on a wakeup, for a process that was woken for a queue and has no taker for it.
-- arguments: ARGV[1] clock offset, [2] wakeup list of the caller, [3] queue, [4...] filters it no longer waits with
-- returns:   1 when another waiter was woken
-- refusals:  none
-- flags: allow-oom
local record = require 'jobs.record'
local keys = require 'keys'
local pending_callbacks = require 'pending_callbacks'
local selection = require 'queues.selection'
local taker_filter = require 'workers.taker_filter'
local wakeups = require 'workers.wakeups'

local OFFERED = 8 -- the wakeup was for one job, but jobs ahead of it may have wakeups that are in transit

return function(arguments)
  local queue = arguments[3]
  local is_woken = false
  for i = 4, #arguments do redis.call('ZREM', keys.waiters(queue), arguments[2] .. '\1' .. arguments[i]) end
  for i = 4, #arguments do
    local ids, resume = selection.next_ids(queue, taker_filter.parse(arguments[i]), OFFERED, 0)
    for _, id in ipairs(ids) do
      local job = record.load(id)
      is_woken = job and wakeups.wake(queue, job) or is_woken
    end
    if resume and #ids == 0 then is_woken = wakeups.wake(queue, nil) or is_woken end
  end
  if queue == pending_callbacks.PLACE and pending_callbacks.is_due() then is_woken = wakeups.wake(queue, nil) end
  return is_woken and 1 or 0
end
