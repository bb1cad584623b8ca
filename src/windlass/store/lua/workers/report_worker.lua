-- Process messages of workers, in their order: they are idle, or they report on jobs. A worker acts on the jobs that it
-- holds. A job that returned to its queue and has no other holder is leased to the worker again when it reports on it.
-- arguments: ARGV[1] clock offset, [2] how long workers may be silent, in ms, which is also the lease of their jobs;
--            then per message: queue, worker (16 bytes), description, 'idle' | 'accepted' | 'progress' | 'finished' |
--            'heard', the job's unique key ('': none), its id ('': not known), age of the message in ms, for how many
--            ms the worker counts as idle (0: it is busy), progress in millionths, result
-- returns:   per message 'ok', the answer of finish, a refusal, or {id, token} of a finished repeating job, for which
--            the caller must call finish
-- refusals:  unknown_job, already_ended, stale_lease (another worker has it), wrong_state (it is not queued, or a limit
--            is full)
-- flags: allow-oom
-- uses: keys, batch, record, note, limits, wakeups, counters, unique, events, ending, reports, leasing, idle_workers, wake_takers
local silent_ms = tonumber(ARGV[2])
local HELD_AT_ONCE = 100

local function find(queue, unique, id)
  local r = unique ~= '' and oldest_holder({queue = queue, unique = unique})
  if r or id == '' then return r, 'unknown_job' end
  r = load(id)
  if not r then return nil, missing(id) end
  if r.queue ~= queue then return nil, 'unknown_job' end
  return r
end

local function take_again(r, worker)
  if links_of(r).limits ~= '' and full_limit(r.queue, links_of(r).limits) then return nil, 'wrong_state' end
  if not may_start(r) then return nil, 'already_ended' end
  lease(r, redis.call('INCR', P .. 'token'), {worker = worker, lease_ms = silent_ms, accept_ms = 0})
  tally(r.queue, 'taken', 1)
  flush()
  return r
end

-- Return the job that the worker reports on, leased to it; else nil and the refusal.
local function own(queue, worker, unique, id)
  local r, refused = find(queue, unique, id)
  if not r then return nil, refused end
  if is_leased(r) then
    if r.worker == worker then return r end
    return nil, 'stale_lease'
  end
  if is_ended(r) then return nil, 'already_ended' end
  if r.state ~= STATE.queued then return nil, 'wrong_state' end
  return take_again(r, worker)
end

local function take_on(r)
  if r.state == STATE.dispatched then accept(r.id, r.token, silent_ms) end
  return renew(r, silent_ms)
end

local function renew_all(worker)
  for _, id in ipairs(redis.call('ZRANGE', P .. 'wj:' .. worker, 0, HELD_AT_ONCE - 1)) do
    local r = load(id)
    if r and r.state == STATE.running and r.worker == worker then renew(r, silent_ms) end
  end
end

local function awaits_acceptance(worker)
  for _, id in ipairs(redis.call('ZRANGE', P .. 'wj:' .. worker, 0, HELD_AT_ONCE - 1)) do
    local r = load(id)
    if r and r.state == STATE.dispatched and r.worker == worker then return true end
  end
  return false
end

-- Workers that have finished a job also report that they are idle, before they can know that the finish has brought
-- them the next job. Without this check they would get two jobs.
local function is_echo(worker, what)
  local key = P .. 'w:' .. worker
  if what == 'finished' then
    redis.call('HSET', key, 'echo', 1)
    return false
  end
  return redis.call('HDEL', key, 'echo') == 1 and what == 'idle' and awaits_acceptance(worker)
end

local DO = {}
function DO.idle() return 'ok' end
DO.heard = DO.idle
function DO.accepted(r) return take_on(r) or 'ok' end
function DO.progress(r, worker, progress)
  local refused = take_on(r)
  if refused then return refused end
  r.progress = tonumber(progress)
  save(r)
  announce(EVENT.progress, r, note_of(r))
  return 'ok'
end
function DO.finished(r, _, _, result)
  if question(r, '', 0) then return {r.id, r.token} end
  return finish(r.id, r.token, result, '', 0)
end

local function hear(queue, worker, description, what, unique, id, age, idle_ms, progress, result)
  local is_there = note_heard(worker, description, tonumber(age), silent_ms)
  if what == 'heard' or (is_there and is_echo(worker, what)) then return 'ok' end
  if what == 'progress' then renew_all(worker) end
  is_idle_for(queue, worker, tonumber(idle_ms))
  if what == 'idle' then return 'ok' end
  local r, refused = own(queue, worker, unique, id)
  if not r then return refused end
  return DO[what](r, worker, progress, result)
end

local answers = {}
for i = 3, #ARGV, 10 do table.insert(answers, hear(unpack(ARGV, i, i + 9))) end
flush()
ring_all()
trim_histories()
return answers
