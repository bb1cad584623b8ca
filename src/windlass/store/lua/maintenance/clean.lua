-- The janitor's step: remove ended jobs whose retention is over, fail jobs that expired before they started, remove
-- given-up callbacks that are old, and caps of keys that have had no jobs for a while.
-- arguments: ARGV[1] clock offset, [2] most jobs of each kind
-- returns:   {now, removed (jobs and callbacks), expired, next instant (0: none)}
-- refusals:  none
-- flags: allow-oom
-- uses: keys, clock, batch, record, wakeups, index, counters, ending, attempts, propagation, pending_callbacks, caps, wake_takers
local most = tonumber(ARGV[2])
local function due_of(key) return redis.call('ZRANGEBYSCORE', P .. key, '-inf', now_ms, 'LIMIT', 0, most) end

local overdue = due_of('retention')
for _, id in ipairs(overdue) do
  local r = load(id)
  if r then
    leave(r)
    drop(r)
  else
    z_drop(P .. 'retention', id)
  end
end
local expired = due_of('expiry')
for _, id in ipairs(expired) do
  local r = load(id)
  if r then
    log_attempt(r, 'expired', '')
    tally(r.queue, 'failed', 1)
    end_job(r, STATE.failed)
  else
    z_drop(P .. 'expiry', id)
  end
end
local forgotten = due_of('given_up')
for _, debt in ipairs(forgotten) do forget_given_up(debt) end
forget_idle_caps(most)
flush()
ring_all()
trim_histories()

local following = math.huge
for _, key in ipairs({'retention', 'expiry', 'given_up', 'idle_caps'}) do
  local first = redis.call('ZRANGE', P .. key, 0, 0, 'WITHSCORES')
  if first[2] then following = math.min(following, tonumber(first[2])) end
end
return {now_ms, #overdue + #forgotten, #expired, following < math.huge and following or 0}
