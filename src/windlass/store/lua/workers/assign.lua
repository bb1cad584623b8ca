-- Lease jobs to workers that reported that they are idle: one to each, to be accepted. Registers the caller for wakeups
-- at queues that have idle workers and no jobs.
-- arguments: ARGV[1] clock offset, [2] most, [3] accept_ms, [4] '1' when a dispatch spends an attempt even if it is not
--            accepted, [5] wakeup list ('': do not register), [6] registration in ms, [7...] queues
-- returns:   {now, next instant at which something may be due (0: none), {id + record, ...}, {worker, description,
--            ...}, {}}
-- refusals:  partition_stopped (instead of the answer)
-- flags: allow-oom
local clock = require 'clock'
local ending = require 'jobs.ending'
local keys = require 'keys'
local lease = require 'leases.lease'
local take = require 'leases.take'
local idle_workers = require 'workers.idle_workers'
local taker_filter = require 'workers.taker_filter'
local wake_takers = require 'workers.wake_takers'
local wakeups = require 'workers.wakeups'

return function(arguments)
  local most, accept_ms = tonumber(arguments[2]), tonumber(arguments[3])
  if take.is_stopped() then return 'partition_stopped' end
  local anything, following, taken = taker_filter.parse(''), math.huge, {}

  local function assign_in(queue, wanted)
    local terms = {next_worker = function() return idle_workers.take_any(queue) end, lease_ms = 0, accept_ms = accept_ms,
      dispatch_counts = arguments[4] == '1'}
    following = math.min(following, take.take_first(queue, anything, wanted, terms, taken))
  end

  for i = 7, #arguments do
    local queue = arguments[i]
    local wanted = math.min(most - #taken, idle_workers.count(queue))
    if wanted > 0 then assign_in(queue, wanted) end
    if idle_workers.count(queue) == 0 then
      -- The wakeup that led here may have been for a job that another taker waits for.
      lease.offer_the_rest(queue, anything)
    elseif arguments[5] ~= '' then
      wakeups.register(queue, arguments[5], '', tonumber(arguments[6]))
    end
  end
  wake_takers.wake_all()
  ending.trim_histories()
  local records, descriptions, told = {}, {}, {}
  for i, job in ipairs(taken) do
    records[i] = job.id .. job.raw
    if not told[job.worker] then
      told[job.worker] = true
      table.insert(descriptions, job.worker)
      table.insert(descriptions, redis.call('HGET', keys.worker(job.worker), 'description') or '')
    end
  end
  return {clock.now_ms, following < math.huge and following or 0, records, descriptions, {}}
end
