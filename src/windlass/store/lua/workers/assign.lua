-- Lease jobs to workers that reported that they are idle: one to each, to be accepted. Registers the caller for wakeups
-- at queues that have idle workers and no jobs.
-- arguments: most, accept_ms, dispatch_counts ('1': a dispatch spends an attempt even if it is not accepted),
--            wakeup_list ('': do not register), registered_ms; then queues
-- returns:   {now, next instant at which something may be due (0: none), {id + record, ...}, {worker, description,
--            ...}, {}, {}}
-- refusals:  partition_stopped (instead of the answer)
-- flags: allow-oom
local clock = require 'clock'
local due = require 'due'
local ending = require 'jobs.ending'
local keys = require 'keys'
local lease = require 'leases.lease'
local take = require 'leases.take'
local idle_workers = require 'workers.idle_workers'
local taker_filter = require 'workers.taker_filter'
local wake_takers = require 'workers.wake_takers'
local wakeups = require 'workers.wakeups'

local QUEUES_AT = 7

-- Lease jobs of a queue to its idle workers. Returns an instant at which more may be due.
local function assign(queue, filter, most, accept_ms, dispatch_counts, taken)
  local wanted = math.min(most - #taken, idle_workers.count(queue))
  if wanted <= 0 then return math.huge end
  local function next_worker() return idle_workers.take_any(queue) end
  local terms = {next_worker = next_worker, lease_ms = 0, accept_ms = accept_ms, dispatch_counts = dispatch_counts}
  return take.take_first(queue, filter, wanted, terms, taken)
end

-- Return the records of these jobs, and {worker, description, ...} of the workers that hold them.
local function describe(taken)
  local records, descriptions, is_described = {}, {}, {}
  for i, job in ipairs(taken) do
    records[i] = job.id .. job.raw
    if not is_described[job.worker] then
      is_described[job.worker] = true
      descriptions[#descriptions + 1] = job.worker
      descriptions[#descriptions + 1] = redis.call('HGET', keys.worker(job.worker), 'description') or ''
    end
  end
  return records, descriptions
end

return function(arguments, most, accept_ms, dispatch_counts, wakeup_list, registered_ms)
  if take.is_stopped() then return 'partition_stopped' end
  most, accept_ms = tonumber(most), tonumber(accept_ms)
  local any_job, following, taken = taker_filter.parse(''), math.huge, {}
  for i = QUEUES_AT, #arguments do
    local queue = arguments[i]
    following = math.min(following, assign(queue, any_job, most, accept_ms, dispatch_counts == '1', taken))
    if idle_workers.count(queue) == 0 then
      -- The wakeup that led here may have been for a job that another taker waits for.
      lease.offer_the_rest(queue, any_job)
    elseif wakeup_list ~= '' then
      wakeups.register(queue, wakeup_list, '', tonumber(registered_ms))
    end
  end
  wake_takers.wake_all()
  ending.trim_histories()
  local records, descriptions = describe(taken)
  return {clock.now_ms, due.answer(following), records, descriptions, {}, {}}
end
