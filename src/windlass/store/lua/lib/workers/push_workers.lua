-- Push workers, to which jobs are pushed: what each can take now, and what earlier pushes showed. `w:<worker>` has
-- `push` (slots \1 queue ...), and after failed pushes `failing_since`, `failed_at`, `failures`, `suspended_until`.
local clock = require 'clock'
local keys = require 'keys'
local script = require 'script'
local wakeups = require 'workers.wakeups'

local push_workers = {}

push_workers.PLACE = '\2push' -- the queue name under which dispatchers wait for free slots; no queue has such a name
push_workers.READ_MAX = 500 -- read by one call
local NAMES_UNKNOWN_MAX = 100 -- per worker; a forgotten name is tried again
local FIRST_SUSPENSION_MS, LONGEST_SUSPENSION_MS = 250, 4000
local DROPPED_AFTER_MS = 10000
local is_some_full
script.on_start(function() is_some_full = nil end)

local function wake_dispatchers()
  while wakeups.wake(push_workers.PLACE, nil) do end
end

function push_workers.exist() return redis.call('EXISTS', keys.push_workers()) == 1 end

function push_workers.forget(worker)
  if redis.call('ZREM', keys.push_workers(), worker) == 0 then return end
  redis.call('DEL', keys.unknown_names(worker))
  redis.call('SREM', keys.push_full(), worker)
end

function push_workers.clear_failures(worker)
  redis.call('HDEL', keys.worker(worker), 'failing_since', 'failed_at', 'failures', 'suspended_until')
end

-- A new description replaces everything learned from earlier pushes.
function push_workers.describe(worker, push)
  push_workers.forget(worker)
  push_workers.clear_failures(worker)
  redis.call('HSET', keys.worker(worker), 'push', push)
  if push == '' then return end
  redis.call('ZADD', keys.push_workers(), clock.now_ms, worker)
  wake_dispatchers()
end

-- A job has left the worker: a dispatcher may wait to push another job to it.
function push_workers.note_room(worker)
  if is_some_full == nil then is_some_full = redis.call('EXISTS', keys.push_full()) == 1 end
  if is_some_full and redis.call('SREM', keys.push_full(), worker) == 1 then wakeups.wake(push_workers.PLACE, nil) end
end

function push_workers.note_unknown_name(worker, name)
  if redis.call('ZSCORE', keys.push_workers(), worker) == false then return end
  local key = keys.unknown_names(worker)
  redis.call('ZADD', key, clock.now_ms, name)
  redis.call('ZREMRANGEBYRANK', key, 0, -NAMES_UNKNOWN_MAX - 1)
end

-- The recoverer takes its jobs back, as from any silent worker.
function push_workers.drop(worker)
  if redis.call('ZSCORE', keys.push_workers(), worker) == false then return end
  push_workers.forget(worker)
  redis.call('ZADD', keys.workers(), clock.now_ms, worker)
  wakeups.wake('', nil)
end

-- Pauses grow with every failure in a row. Failures during a pause do not count.
function push_workers.suspend(worker)
  if redis.call('ZSCORE', keys.push_workers(), worker) == false then return end
  local key = keys.worker(worker)
  local known = redis.call('HMGET', key, 'failing_since', 'failed_at', 'failures', 'suspended_until')
  local since, failures = tonumber(known[1] or clock.now_ms), tonumber(known[3] or 0)
  if tonumber(known[4] or 0) > clock.now_ms then return end
  if clock.now_ms - tonumber(known[2] or clock.now_ms) > DROPPED_AFTER_MS then since, failures = clock.now_ms, 0 end
  if clock.now_ms - since >= DROPPED_AFTER_MS then return push_workers.drop(worker) end
  local pause_ms = math.min(FIRST_SUSPENSION_MS * 2 ^ failures, LONGEST_SUSPENSION_MS)
  redis.call('HSET', key, 'failing_since', since, 'failed_at', clock.now_ms, 'failures', failures + 1,
    'suspended_until', clock.now_ms + pause_ms)
end

-- A busy worker gets no jobs for the pause that it asked for, or for pauses that grow. It is not dropped: it answers.
function push_workers.pause(worker, asked_ms)
  if redis.call('ZSCORE', keys.push_workers(), worker) == false then return end
  local key = keys.worker(worker)
  local known = redis.call('HMGET', key, 'failures', 'suspended_until')
  local failures, suspended_until = tonumber(known[1] or 0), tonumber(known[2] or 0)
  local pause_ms = asked_ms
  if asked_ms == 0 then
    if suspended_until > clock.now_ms then return end
    pause_ms = math.min(FIRST_SUSPENSION_MS * 2 ^ failures, LONGEST_SUSPENSION_MS)
  end
  redis.call('HSET', key, 'failing_since', clock.now_ms, 'failed_at', clock.now_ms, 'failures', failures + 1,
    'suspended_until', math.max(suspended_until, clock.now_ms + pause_ms))
end

-- Return the slots and queues of a push worker (nil: it is none).
local function parse_push(push)
  local slots, queues = nil, {}
  for part in string.gmatch(push, '[^\1]+') do
    if slots then table.insert(queues, part) else slots = tonumber(part) end
  end
  return slots, queues
end

-- Return nil if no job can be pushed to the worker now; then also the instant of its next chance, if that is known.
function push_workers.candidate(worker)
  local push, suspended_until, failing_since, description, beat_ms = unpack(redis.call('HMGET', keys.worker(worker),
    'push', 'suspended_until', 'failing_since', 'description', 'beat_ms'))
  local slots, queues = parse_push(push or '')
  if not slots then return nil end
  local room = slots - redis.call('ZCARD', keys.worker_jobs(worker))
  if room <= 0 then
    redis.call('SADD', keys.push_full(), worker)
    return nil
  end
  if tonumber(suspended_until or 0) > clock.now_ms then return nil, tonumber(suspended_until) end
  -- A worker whose last push failed is tried with a single job.
  if failing_since then room = 1 end
  local unknown = redis.call('ZRANGE', keys.unknown_names(worker), 0, -1)
  return {worker = worker, room = room, queues = queues, description = description, beat_ms = tonumber(beat_ms),
    filter = #unknown > 0 and '\1except\1' .. table.concat(unknown, '\0') or ''}
end

-- Push workers need not send heartbeats: reading one counts as a heartbeat, and a push finds out if it does not answer.
function push_workers.keep_alive(candidates)
  for _, candidate in ipairs(candidates) do
    redis.call('ZADD', keys.workers(), 'XX', 'GT', clock.now_ms + candidate.beat_ms, candidate.worker)
  end
end

-- Return the workers to which a job could be pushed now, and the earliest instant at which a suspended one can be
-- tried.
function push_workers.candidates()
  local found, following = {}, math.huge
  for _, worker in ipairs(redis.call('ZRANGE', keys.push_workers(), 0, push_workers.READ_MAX - 1)) do
    local candidate, at = push_workers.candidate(worker)
    if candidate then table.insert(found, candidate) end
    following = math.min(following, at or math.huge)
  end
  return found, following
end

-- Return the index of the candidate with the most free slots, and the free slots of the next one.
function push_workers.roomiest(candidates)
  local best, second = 1, 0
  for i = 2, #candidates do
    local room = candidates[i].room
    if room > candidates[best].room then
      best, second = i, candidates[best].room
    elseif room > second then
      second = room
    end
  end
  return best, second
end

return push_workers
