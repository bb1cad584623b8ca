-- uses: keys, clock, wakeups
-- Push workers, to which jobs are pushed: what each can take now, and what earlier pushes showed. `w:<worker>` has
-- `push` (slots \1 queue ...), and after failed pushes `failing_since`, `failed_at`, `failures`, `suspended_until`.
local PUSH = '\2push' -- the queue name under which dispatchers wait for free slots; no queue has such a name
local PUSH_WORKERS_MAX = 500 -- read by one call
local NAMES_UNKNOWN_MAX = 100 -- per worker; a forgotten name is tried again
local FIRST_SUSPENSION_MS, LONGEST_SUSPENSION_MS = 250, 4000
local DROPPED_AFTER_MS = 10000
local is_some_full
at_start[#at_start + 1] = function() is_some_full = nil end

local function ring_dispatchers()
  while ring(PUSH, nil) do end
end

local function has_push_workers() return redis.call('EXISTS', P .. 'push_workers') == 1 end

local function forget_push(worker)
  if redis.call('ZREM', P .. 'push_workers', worker) == 0 then return end
  redis.call('DEL', P .. 'wn:' .. worker)
  redis.call('SREM', P .. 'push_full', worker)
end

local function is_reachable_again(worker)
  redis.call('HDEL', P .. 'w:' .. worker, 'failing_since', 'failed_at', 'failures', 'suspended_until')
end

-- A new description replaces everything learned from earlier pushes.
local function describe_push(worker, push)
  forget_push(worker)
  is_reachable_again(worker)
  redis.call('HSET', P .. 'w:' .. worker, 'push', push)
  if push == '' then return end
  redis.call('ZADD', P .. 'push_workers', now_ms, worker)
  ring_dispatchers()
end

-- A job has left the worker: a dispatcher may wait to push another job to it.
local function note_room(worker)
  if is_some_full == nil then is_some_full = redis.call('EXISTS', P .. 'push_full') == 1 end
  if is_some_full and redis.call('SREM', P .. 'push_full', worker) == 1 then ring(PUSH, nil) end
end

local function note_unknown_name(worker, name)
  if redis.call('ZSCORE', P .. 'push_workers', worker) == false then return end
  local key = P .. 'wn:' .. worker
  redis.call('ZADD', key, now_ms, name)
  redis.call('ZREMRANGEBYRANK', key, 0, -NAMES_UNKNOWN_MAX - 1)
end

-- The recoverer takes its jobs back, as from any silent worker.
local function drop_push_worker(worker)
  if redis.call('ZSCORE', P .. 'push_workers', worker) == false then return end
  forget_push(worker)
  redis.call('ZADD', P .. 'workers', now_ms, worker)
  ring('', nil)
end

-- Pauses grow with every failure in a row. Failures during a pause do not count.
local function suspend(worker)
  if redis.call('ZSCORE', P .. 'push_workers', worker) == false then return end
  local key = P .. 'w:' .. worker
  local known = redis.call('HMGET', key, 'failing_since', 'failed_at', 'failures', 'suspended_until')
  local since, failures = tonumber(known[1] or now_ms), tonumber(known[3] or 0)
  if tonumber(known[4] or 0) > now_ms then return end
  if now_ms - tonumber(known[2] or now_ms) > DROPPED_AFTER_MS then since, failures = now_ms, 0 end
  if now_ms - since >= DROPPED_AFTER_MS then return drop_push_worker(worker) end
  local pause_ms = math.min(FIRST_SUSPENSION_MS * 2 ^ failures, LONGEST_SUSPENSION_MS)
  redis.call('HSET', key, 'failing_since', since, 'failed_at', now_ms, 'failures', failures + 1,
    'suspended_until', now_ms + pause_ms)
end

-- Return nil if no job can be pushed to the worker now; then also the instant of its next chance, if that is known.
local function push_candidate(worker)
  local said = redis.call('HMGET', P .. 'w:' .. worker, 'push', 'suspended_until', 'failing_since', 'description', 'beat_ms')
  local slots, queues = nil, {}
  for part in string.gmatch(said[1] or '', '[^\1]+') do
    if slots then table.insert(queues, part) else slots = tonumber(part) end
  end
  if not slots then return nil end
  local room = slots - redis.call('ZCARD', P .. 'wj:' .. worker)
  if room <= 0 then
    redis.call('SADD', P .. 'push_full', worker)
    return nil
  end
  if tonumber(said[2] or 0) > now_ms then return nil, tonumber(said[2]) end
  -- A worker whose last push failed is tried with a single job.
  if said[3] then room = 1 end
  local unknown = redis.call('ZRANGE', P .. 'wn:' .. worker, 0, -1)
  return {worker = worker, room = room, queues = queues, description = said[4], beat_ms = tonumber(said[5]),
    filter = #unknown > 0 and '\1except\1' .. table.concat(unknown, '\0') or ''}
end

-- Push workers need not send heartbeats: reading one counts as a heartbeat, and a push finds out if it does not answer.
local function keep_push_workers(candidates)
  for _, one in ipairs(candidates) do
    redis.call('ZADD', P .. 'workers', 'XX', 'GT', now_ms + one.beat_ms, one.worker)
  end
end

-- Return the workers to which a job could be pushed now, and the earliest instant at which a suspended one can be
-- tried.
local function push_candidates()
  local found, following = {}, math.huge
  for _, worker in ipairs(redis.call('ZRANGE', P .. 'push_workers', 0, PUSH_WORKERS_MAX - 1)) do
    local candidate, at = push_candidate(worker)
    if candidate then table.insert(found, candidate) end
    following = math.min(following, at or math.huge)
  end
  return found, following
end

-- Return the index of the candidate with the most free slots, and the free slots of the next one.
local function roomiest(candidates)
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
