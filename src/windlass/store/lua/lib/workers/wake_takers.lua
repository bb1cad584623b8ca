-- Wakeups of waiting takers: for jobs that became takeable, and for blocked lanes that got room.
local record = require 'jobs.record'
local blocked_lanes = require 'limits.blocked_lanes'
local limits = require 'limits.limits'
local configuration = require 'queues.configuration'
local lanes = require 'queues.lanes'
local selection = require 'queues.selection'
local taker_filter = require 'workers.taker_filter'
local wakeups = require 'workers.wakeups'

local wake_takers = {}

local FILTERS_TRIED = 50
local OFFERED_MAX = 8

-- Room appeared: look for jobs for each distinct filter of the waiting takers.
local function offer_room(queue)
  local tried, filters = 0, {}
  local list = wakeups.load_waiters(queue)
  for i = 1, #list, 2 do
    local filter = list[i] and string.match(list[i], '^[^\1]*\1(.*)$')
    if filter and not filters[filter] and tried < FILTERS_TRIED then
      filters[filter] = true
      tried = tried + 1
      local ids, resume = selection.next_ids(queue, taker_filter.parse(filter), OFFERED_MAX, 0)
      for _, id in ipairs(ids) do
        local job = record.load(id)
        if job then wakeups.wake(queue, job) end
      end
      if resume and #ids == 0 then wakeups.wake(queue, nil) end
    end
  end
end

-- A job that may not run now wakes no taker: its lane is moved to the blocked lanes, and takers are woken when room
-- appears.
local function may_run_now(job)
  local lane = lanes.of(job)
  local limit_key = limits.blocker_of(job.queue, lane)
  if limit_key then blocked_lanes.block(job.queue, lane, limit_key) end
  return not limit_key
end

-- Call it after the last flush, so that the jobs are in place when takers learn of them.
function wake_takers.wake_all()
  limits.forget_rooms()
  for queue, list in pairs(wakeups.wanted) do
    if not configuration.of(queue).is_paused then
      for _, job in ipairs(list) do
        if may_run_now(job) and not wakeups.wake(queue, job) and wakeups.has_no_waiters(queue) then break end
      end
    end
  end
  wakeups.wanted = {}
  for queue in pairs(blocked_lanes.opened) do offer_room(queue) end
  blocked_lanes.opened = {}
end

return wake_takers
