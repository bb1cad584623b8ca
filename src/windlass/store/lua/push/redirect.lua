-- Lease a pushed job that its worker refused to another worker that knows its name, with a new token.
-- arguments: ARGV[1] clock offset, [2] id, [3] token, [4] accept_ms, [5...] workers that have refused it
-- returns:   {now, id + record, worker, description}; or 'later': other workers have no free slot now, so the job waits
--            in its queue, without a spent attempt; or 'nobody': all workers have refused it, and it is left unchanged
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
-- uses: keys, clock, batch, record, filter, wakeups, push_workers, index, ending, reports, leasing, wake_takers
local LATER_MS = 1000
local r, refused = held(ARGV[2], tonumber(ARGV[3]))
if not r then return refused end
if r.state ~= STATE.dispatched then return 'wrong_state' end
local has_refused = {}
for i = 5, #ARGV do has_refused[ARGV[i]] = true end

local function serves(worker)
  local push = redis.call('HGET', P .. 'w:' .. worker, 'push') or ''
  if not string.find(push .. '\1', '\1' .. r.queue .. '\1', 1, true) then return false end
  return not redis.call('ZSCORE', P .. 'wn:' .. worker, r.name)
end

local best, is_another = nil, false
for _, worker in ipairs(redis.call('ZRANGE', P .. 'push_workers', 0, PUSH_WORKERS_MAX - 1)) do
  if not has_refused[worker] and serves(worker) then
    is_another = true
    local candidate = push_candidate(worker)
    if candidate and (not best or candidate.room > best.room) then best = candidate end
  end
end
if not is_another then return 'nobody' end
if best then
  leave(r)
  r.token = redis.call('INCR', P .. 'token')
  r.worker, r.started_at, r.deadline, r.told = best.worker, now_ms, now_ms + tonumber(ARGV[4]), nil
  enter(r)
  save(r)
  flush()
  ring_all()
  local whole = load_whole({r.id})[1]
  return {now_ms, whole.id .. whole.raw, best.worker, best.description}
end
r.attempt = math.max(0, r.attempt - 1)
put_back(r, now_ms + LATER_MS)
flush()
ring_all()
trim_histories()
return 'later'
