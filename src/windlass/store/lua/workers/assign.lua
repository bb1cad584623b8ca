-- Lease jobs to workers that reported that they are idle: one to each, to be accepted. Registers the caller for wakeups
-- at queues that have idle workers and no jobs.
-- arguments: ARGV[1] clock offset, [2] most, [3] accept_ms, [4] '1' when a dispatch spends an attempt even if it is not
--            accepted, [5] wakeup list ('': do not register), [6] registration in ms, [7...] queues
-- returns:   {now, next instant at which something may be due (0: none), {id + record, ...}, {worker, description,
--            ...}, {}}
-- refusals:  partition_stopped (instead of the answer)
-- flags: allow-oom
-- uses: keys, clock, filter, wakeups, ending, leasing, idle_workers, wake_takers, taking
local most, accept_ms = tonumber(ARGV[2]), tonumber(ARGV[3])
if is_stopped() then return 'partition_stopped' end

local anything, following, taken = parse_filter(''), math.huge, {}

local function assign_in(queue, wanted)
  local terms = {next_worker = function() return next_idle(queue) end, lease_ms = 0, accept_ms = accept_ms,
    dispatch_counts = ARGV[4] == '1'}
  following = math.min(following, walk(queue, anything, wanted, terms, taken))
end

for i = 7, #ARGV do
  local queue = ARGV[i]
  local wanted = math.min(most - #taken, idle_count(queue))
  if wanted > 0 then assign_in(queue, wanted) end
  if idle_count(queue) == 0 then
    -- The wakeup that led here may have been for a job that another taker waits for.
    offer_the_rest(queue, anything)
  elseif ARGV[5] ~= '' then
    wait_for_ring(queue, ARGV[5], '', tonumber(ARGV[6]))
  end
end
ring_all()
trim_histories()
local records, descriptions, told = {}, {}, {}
for i, r in ipairs(taken) do
  records[i] = r.id .. r.raw
  if not told[r.worker] then
    told[r.worker] = true
    table.insert(descriptions, r.worker)
    table.insert(descriptions, redis.call('HGET', P .. 'w:' .. r.worker, 'description') or '')
  end
end
return {now_ms, following < math.huge and following or 0, records, descriptions, {}}
