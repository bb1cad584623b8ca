-- The recoverer's step: return expired leases, collect execution timeouts for a decision, repeat lost wakeups, and take
-- jobs back from silent workers.
-- arguments: ARGV[1] clock offset, [2] most queues, [3] most jobs per queue
-- returns:   {now, leases returned, next instant (0: none), {id + record without payload, ... of timed-out jobs}}
-- refusals:  none
-- flags: allow-oom
-- uses: keys, clock, batch, record, config, wakeups, push_workers, pending_callbacks, ending, expiry, wake_takers
local most_queues, most_jobs = tonumber(ARGV[2]), tonumber(ARGV[3])
local returned, timed_out = 0, {}

local function due_of(timer) return redis.call('ZRANGEBYSCORE', P .. timer, '-inf', now_ms, 'LIMIT', 0, most_queues) end

for _, queue in ipairs(due_of('timers:lease')) do
  local lost = return_overdue(queue, most_jobs)
  returned = returned + lost
  for _, id in ipairs(due_ids('running', queue, most_jobs)) do
    local r = load(id)
    if r and is_timed_out(r) then table.insert(timed_out, id .. r.raw) end
  end
  reset_timer('lease', queue, 'running')
end

-- A wakeup may have gone to a process that died: while there is work, all waiters are woken.
for _, queue in ipairs(due_of('timers:ring')) do
  redis.call('ZREM', P .. 'timers:ring', queue)
  local has_work = queue == OWED and is_debt_due() or queue == PUSH and has_push_workers() or not config_of(queue).is_paused
    and redis.call('EXISTS', queue_key('ready', queue), queue_key('heads', queue), queue_key('room', queue)) > 0
  while has_work and ring(queue, nil) do end
end

for _, worker in ipairs(redis.call('ZRANGEBYSCORE', P .. 'workers', '-inf', now_ms, 'LIMIT', 0, most_queues)) do
  local held_ids = redis.call('ZRANGE', P .. 'wj:' .. worker, 0, most_jobs - 1)
  for _, id in ipairs(held_ids) do
    local r = load(id)
    if r and is_leased(r) and not has(r, 'retakeable') then
      if r.state == STATE.running and (r.deadline == 0 or r.deadline > now_ms) then r.deadline = now_ms end
      lose_lease(r)
      returned = returned + 1
    end
    -- A retake job keeps running until another worker takes it, but its worker is lost.
    z_drop(P .. 'wj:' .. worker, id)
  end
  flush()
  if #held_ids < most_jobs then
    redis.call('ZREM', P .. 'workers', worker)
    redis.call('DEL', P .. 'w:' .. worker)
    forget_push(worker)
  end
end
ring_all()
trim_histories()

local following = math.huge
for _, timer in ipairs({'timers:lease', 'timers:ring', 'workers'}) do
  local first = redis.call('ZRANGE', P .. timer, 0, 0, 'WITHSCORES')
  if first[2] then following = math.min(following, tonumber(first[2])) end
end
return {now_ms, returned, following < math.huge and following or 0, timed_out}
