-- Takers that could take a job: those that wait for its queue, and the registered workers. Read-only.
local clock = require 'clock'
local keys = require 'keys'
local taker_filter = require 'workers.taker_filter'
local wakeups = require 'workers.wakeups'

local candidates = {}

local NAME_LISTS_MAX = 20 -- different lists of names in one answer; workers with other lists count as without names

-- Return the names that a worker knows (register.lua), or ''.
local function names_of(worker) return redis.call('HGET', keys.worker(worker), 'names') or '' end

-- Return the filter of a waiting taker. The worker behind a taker that accepts a direct handoff is known: if it gave
-- its names, these are its filter, although it asks for jobs of any name.
local function filter_of(waiter)
  local wakeup_list, filter = string.match(waiter, '^([^\1]*)\1(.*)$')
  local worker = redis.call('GET', keys.handoff(wakeup_list))
  local names = worker and names_of(worker) or ''
  if names == '' then return filter end
  return string.match(filter, '^h?s?') .. '\1only\1' .. string.sub(names, 2, -2)
end

-- Return {filter, number of takers that wait with it, ...} of a queue.
function candidates.waiting_filters(queue)
  local found, place = {}, {}
  local list = wakeups.load_waiters(queue)
  for i = 1, #list, 2 do
    if tonumber(list[i + 1]) >= clock.now_ms then
      local filter = filter_of(list[i])
      if not place[filter] then
        found[#found + 1] = filter
        found[#found + 1] = 0
        place[filter] = #found
      end
      found[place[filter]] = found[place[filter]] + 1
    end
  end
  return found
end

-- Return how many takers wait, how many of them want this job, how many jobs of its queue are leased, and the first
-- filters that do not match it.
function candidates.waiting_takers(job, most)
  local waiting, wanting, unfit = 0, 0, {}
  local filters = candidates.waiting_filters(job.queue)
  for i = 1, #filters, 2 do
    local filter, number = filters[i], filters[i + 1]
    waiting = waiting + number
    if taker_filter.matches(taker_filter.parse(filter), job) then
      wanting = wanting + number
    elseif #unfit < most then
      unfit[#unfit + 1] = filter
    end
  end
  return {waiting, wanting, redis.call('ZCARD', keys.running(job.queue)), unfit}
end

-- Return {worker, silent at, heartbeat interval in ms, description, jobs held}, or nil if it is not registered.
function candidates.describe_worker(worker)
  local silent_at = redis.call('ZSCORE', keys.workers(), worker)
  if not silent_at then return nil end
  local beat_ms, description = unpack(redis.call('HMGET', keys.worker(worker), 'beat_ms', 'description'))
  local jobs_held = redis.call('ZCARD', keys.worker_jobs(worker))
  return {worker, tonumber(silent_at), tonumber(beat_ms or 0), description or '', jobs_held}
end

-- If there are very many, return those with the latest heartbeat deadlines: each as above, and the index of its names
-- (0: not given) in the second table, because workers of one program have the same names.
function candidates.registered_workers(most)
  local found, lists, place = {}, {}, {}
  for i, worker in ipairs(redis.call('ZREVRANGE', keys.workers(), 0, most - 1)) do
    local names = names_of(worker)
    if names ~= '' and not place[names] and #lists < NAME_LISTS_MAX then
      lists[#lists + 1] = names
      place[names] = #lists
    end
    found[i] = candidates.describe_worker(worker)
    found[i][6] = place[names] or 0
  end
  return found, lists
end

-- Return the push workers that reported that they do not know this name.
function candidates.workers_without_name(name, most)
  local found = {}
  for _, worker in ipairs(redis.call('ZRANGE', keys.push_workers(), 0, most - 1)) do
    if redis.call('ZSCORE', keys.unknown_names(worker), name) then found[#found + 1] = worker end
  end
  return found
end

return candidates
