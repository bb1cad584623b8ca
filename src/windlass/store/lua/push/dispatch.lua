-- Lease jobs to push workers. Each job goes to the worker with the most free slots; no worker gets more jobs than it
-- has slots.
-- arguments: ARGV[1] clock offset, [2] most, [3] accept_ms, [4] wakeup list ('': do not register), [5] registration in
--            ms, [6] '1' when others wait on the same wakeup list
-- returns:   {now, next instant at which something may be due (0: none), {id + record, ...}, {worker, description,
--            ...}, {queue, filter, ... where the dispatcher waits}}
-- refusals:  partition_stopped (instead of the answer)
-- flags: allow-oom
local clock = require 'clock'
local propagation = require 'dependencies.propagation'
local ending = require 'jobs.ending'
local keys = require 'keys'
local take = require 'leases.take'
local configuration = require 'queues.configuration'
local push_workers = require 'workers.push_workers'
local taker_filter = require 'workers.taker_filter'
local wake_takers = require 'workers.wake_takers'
local wakeups = require 'workers.wakeups'

-- Only name lanes allow a filter by name.
local function filter_in(queue, candidate) return configuration.of(queue).name_lanes == 1 and candidate.filter or '' end

return function(arguments)
  local most, accept_ms = tonumber(arguments[2]), tonumber(arguments[3])
  if take.is_stopped() then return 'partition_stopped' end
  local following = math.huge

  local function lease_to(candidate, wanted, taken)
    local before = #taken
    local terms = {worker = candidate.worker, lease_ms = 0, accept_ms = accept_ms}
    for _, queue in ipairs(candidate.queues) do
      local left = wanted - (#taken - before)
      if left > 0 then
        following = math.min(following, take.take_first(queue, taker_filter.parse(filter_in(queue, candidate)), left, terms, taken))
      end
    end
    return #taken - before
  end

  local function lease_by_room(candidates)
    local taken = {}
    while #taken < most and #candidates > 0 do
      local best, second = push_workers.roomiest(candidates)
      local one = candidates[best]
      local wanted = math.min(most - #taken, math.max(1, one.room - second))
      local got = lease_to(one, wanted, taken)
      one.room = one.room - got
      if one.room == 0 then redis.call('SADD', keys.push_full(), one.worker) end
      if got < wanted or one.room == 0 then table.remove(candidates, best) end
    end
    return taken
  end

  local candidates, suspended_until = push_workers.candidates()
  following = suspended_until
  local descriptions, places, known = {}, {}, {}
  local asked = {}
  for i, one in ipairs(candidates) do
    asked[i] = one
    for _, queue in ipairs(one.queues) do
      local filter = filter_in(queue, one)
      if not known[queue .. '\1' .. filter] then
        known[queue .. '\1' .. filter] = true
        table.insert(places, queue)
        table.insert(places, filter)
      end
    end
  end

  local function register_places()
    if arguments[4] == '' then return end
    wakeups.register(push_workers.PLACE, arguments[4], '', tonumber(arguments[5]))
    for i = 1, #places, 2 do wakeups.register(places[i], arguments[4], places[i + 1], tonumber(arguments[5])) end
  end

  if arguments[6] == '1' then register_places() end
  local taken = lease_by_room(candidates)
  if #taken == 0 and #asked > 0 then
    local was_some, is_left = propagation.continue_steps()
    if was_some or is_left then following = math.min(following, clock.now_ms + 10) end
  end
  if #taken == 0 then
    register_places()
    push_workers.keep_alive(asked)
  end
  wake_takers.wake_all()
  ending.trim_histories()
  local records, holds = {}, {}
  for i, job in ipairs(taken) do records[i], holds[job.worker] = job.id .. job.raw, true end
  for _, one in ipairs(asked) do
    if holds[one.worker] then
      table.insert(descriptions, one.worker)
      table.insert(descriptions, one.description)
    end
  end
  return {clock.now_ms, following < math.huge and following or 0, records, descriptions, places}
end
