-- Lease jobs to push workers. Each job goes to the worker with the most free slots; no worker gets more jobs than it
-- has slots.
-- arguments: ARGV[1] clock offset, [2] most, [3] accept_ms, [4] wakeup list ('': do not register), [5] registration in
--            ms, [6] '1' when others wait on the same wakeup list
-- returns:   {now, next instant at which something may be due (0: none), {id + record, ...}, {worker, description,
--            ...}, {queue, filter, ... where the dispatcher waits}}
-- refusals:  partition_stopped (instead of the answer)
-- flags: allow-oom
-- uses: keys, clock, config, filter, wakeups, push_workers, ending, leasing, propagation, wake_takers, taking
local most, accept_ms = tonumber(ARGV[2]), tonumber(ARGV[3])
if is_stopped() then return 'partition_stopped' end

-- Only name lanes allow a filter by name.
local function filter_in(queue, candidate) return config_of(queue).name_lanes == 1 and candidate.filter or '' end

local following = math.huge
local function lease_to(candidate, wanted, taken)
  local before = #taken
  local terms = {worker = candidate.worker, lease_ms = 0, accept_ms = accept_ms}
  for _, queue in ipairs(candidate.queues) do
    local left = wanted - (#taken - before)
    if left > 0 then
      following = math.min(following, walk(queue, parse_filter(filter_in(queue, candidate)), left, terms, taken))
    end
  end
  return #taken - before
end

local function lease_by_room(candidates)
  local taken = {}
  while #taken < most and #candidates > 0 do
    local best, second = roomiest(candidates)
    local one = candidates[best]
    local wanted = math.min(most - #taken, math.max(1, one.room - second))
    local got = lease_to(one, wanted, taken)
    one.room = one.room - got
    if one.room == 0 then redis.call('SADD', P .. 'push_full', one.worker) end
    if got < wanted or one.room == 0 then table.remove(candidates, best) end
  end
  return taken
end

local candidates, suspended_until = push_candidates()
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
  if ARGV[4] == '' then return end
  wait_for_ring(PUSH, ARGV[4], '', tonumber(ARGV[5]))
  for i = 1, #places, 2 do wait_for_ring(places[i], ARGV[4], places[i + 1], tonumber(ARGV[5])) end
end

if ARGV[6] == '1' then register_places() end
local taken = lease_by_room(candidates)
if #taken == 0 and #asked > 0 then
  local was_some, is_left = work_on()
  if was_some or is_left then following = math.min(following, now_ms + 10) end
end
if #taken == 0 then
  register_places()
  keep_push_workers(asked)
end
ring_all()
trim_histories()
local records, holds = {}, {}
for i, r in ipairs(taken) do records[i], holds[r.worker] = r.id .. r.raw, true end
for _, one in ipairs(asked) do
  if holds[one.worker] then
    table.insert(descriptions, one.worker)
    table.insert(descriptions, one.description)
  end
end
return {now_ms, following < math.huge and following or 0, records, descriptions, places}
