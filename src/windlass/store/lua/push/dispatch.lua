-- Lease jobs to push workers. Each job goes to the worker with the most free slots; no worker gets more jobs than it
-- has slots.
-- arguments: most, accept_ms, wakeup_list ('': do not register), registered_ms, stays_registered ('1': others wait on
--            the same wakeup list)
-- returns:   {now, next instant at which something may be due (0: none), {id + record, ...}, {worker, description,
--            ...}, {queue, filter, ... where the dispatcher waits}, {length of its fixed lease in ms (0: it is
--            renewed), ... per job}}
-- refusals:  partition_stopped (instead of the answer)
-- flags: allow-oom
local clock = require 'clock'
local propagation = require 'dependencies.propagation'
local due = require 'due'
local ending = require 'jobs.ending'
local keys = require 'keys'
local lease = require 'leases.lease'
local take = require 'leases.take'
local configuration = require 'queues.configuration'
local push_workers = require 'workers.push_workers'
local taker_filter = require 'workers.taker_filter'
local wake_takers = require 'workers.wake_takers'
local wakeups = require 'workers.wakeups'

local STEPS_PAUSE_MS = 10

-- Only name lanes allow a filter by name.
local function filter_in(queue, candidate) return configuration.of(queue).name_lanes == 1 and candidate.filter or '' end

-- Return {queue, filter, ...} for the queues of these workers, each pair once.
local function places_of(candidates)
  local places, known = {}, {}
  for _, candidate in ipairs(candidates) do
    for _, queue in ipairs(candidate.queues) do
      local filter = filter_in(queue, candidate)
      if not known[queue .. '\1' .. filter] then
        known[queue .. '\1' .. filter] = true
        places[#places + 1] = queue
        places[#places + 1] = filter
      end
    end
  end
  return places
end

local function register(places, wakeup_list, registered_ms)
  if wakeup_list == '' then return end
  wakeups.register(push_workers.PLACE, wakeup_list, '', registered_ms)
  for i = 1, #places, 2 do wakeups.register(places[i], wakeup_list, places[i + 1], registered_ms) end
end

-- Lease up to `wanted` jobs to a worker. Returns how many, and an instant at which more may be due.
local function lease_to(candidate, wanted, accept_ms, taken)
  local before, following = #taken, math.huge
  local terms = {worker = candidate.worker, lease_ms = 0, accept_ms = accept_ms}
  for _, queue in ipairs(candidate.queues) do
    local left = wanted - (#taken - before)
    if left > 0 then
      local filter = taker_filter.parse(filter_in(queue, candidate))
      following = math.min(following, take.take_first(queue, filter, left, terms, taken))
    end
  end
  return #taken - before, following
end

-- Return the leased jobs, and an instant at which more may be due.
local function lease_by_room(candidates, most, accept_ms)
  local taken, following, with_room = {}, math.huge, {unpack(candidates)}
  while #taken < most and #with_room > 0 do
    local best, second_room = push_workers.roomiest(with_room)
    local candidate = with_room[best]
    local wanted = math.min(most - #taken, math.max(1, candidate.room - second_room))
    local leased, at = lease_to(candidate, wanted, accept_ms, taken)
    following = math.min(following, at)
    candidate.room = candidate.room - leased
    if candidate.room == 0 then redis.call('SADD', keys.push_full(), candidate.worker) end
    if leased < wanted or candidate.room == 0 then table.remove(with_room, best) end
  end
  return taken, following
end

-- Return the records of these jobs, {worker, description, ...} of the workers that hold them, and their fixed leases.
local function describe(taken, candidates)
  local records, descriptions, fixed_leases, is_holder = {}, {}, {}, {}
  for i, job in ipairs(taken) do
    records[i], fixed_leases[i], is_holder[job.worker] = job.id .. job.raw, lease.fixed_ms(job) or 0, true
  end
  for _, candidate in ipairs(candidates) do
    if is_holder[candidate.worker] then
      descriptions[#descriptions + 1] = candidate.worker
      descriptions[#descriptions + 1] = candidate.description
    end
  end
  return records, descriptions, fixed_leases
end

return function(_, most, accept_ms, wakeup_list, registered_ms, stays_registered)
  if take.is_stopped() then return 'partition_stopped' end
  registered_ms = tonumber(registered_ms)
  local candidates, suspended_until = push_workers.candidates()
  local places = places_of(candidates)
  if stays_registered == '1' then register(places, wakeup_list, registered_ms) end
  local taken, following = lease_by_room(candidates, tonumber(most), tonumber(accept_ms))
  following = math.min(following, suspended_until)
  if #taken == 0 then
    if #candidates > 0 and propagation.continue_steps() then
      following = math.min(following, clock.now_ms + STEPS_PAUSE_MS)
    end
    register(places, wakeup_list, registered_ms)
    push_workers.keep_alive(candidates)
  end
  wake_takers.wake_all()
  ending.trim_histories()
  local records, descriptions, fixed_leases = describe(taken, candidates)
  return {clock.now_ms, due.answer(following), records, descriptions, places, fixed_leases}
end
