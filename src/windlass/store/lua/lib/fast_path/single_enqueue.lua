-- Enqueue of one simple job (plain.lua), which is the most frequent call. The effect is that of plain_enqueue.lua,
-- without its lists.
local clock = require 'clock'
local handoff = require 'fast_path.handoff'
local simple = require 'fast_path.simple'
local simple_enqueue = require 'fast_path.simple_enqueue'
local counters = require 'jobs.counters'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local numbers = require 'numbers'
local script = require 'script'

local single_enqueue = {}

-- Return whether the queue is known and nothing was ever set for it: then its bytes are the only field.
function single_enqueue.is_bare(names)
  local found = simple.call('HGETALL', names.q)
  return #found == 2 and found[1] == 'bytes'
end

-- Return whether the job may be added, and whether the queue is bare. Call it if there is no record of the job and no
-- follower.
local function is_let_in(names, id)
  local is_nothing_set = single_enqueue.is_bare(names)
  return (is_nothing_set or simple_enqueue.accepts(names)) and (simple.call('GET', names.limits_version) or '0') == script.arguments[2] and not ending.has_ended(id),
    is_nothing_set
end

-- Hand the job to a waiting worker, if possible; otherwise plain_enqueue.lua adds it.
local function hand_single(names, queue, id, start, is_nothing_set)
  local wakeup_lists, gone = simple_enqueue.find_waiters(names, 1, is_nothing_set)
  local worker = wakeup_lists and handoff.find_worker(names, queue, wakeup_lists[1], is_nothing_set)
  return worker and {handoff.hand_over(names, queue, id, start, worker, wakeup_lists[1], gone)}
end

local function enqueue_single(entry)
  local start, kind = simple.parse(entry)
  if not start or start.flags > record.CODEC_BITS or not kind.is_plain or script.arguments[4] ~= '' then return nil end
  local queue = kind.queue
  local names, id = simple.keys_of(queue), simple.sub(entry, 1, 16)
  local key = names.job .. id
  -- If exactly one of these keys exists, it must be `waiters`; otherwise hand_single finds no waiter and returns nil.
  local found = simple.call('EXISTS', key, names.waiters, names.followed)
  if found > 1 then return nil end
  local is_new, is_nothing_set = is_let_in(names, id)
  if not is_new then return nil end
  if found == 1 then return hand_single(names, queue, id, start, is_nothing_set) end
  local sequence = simple.call('INCR', names.seq)
  simple.call('ZADD', names.ready, start.score, simple.pack(simple.MEMBER, clock.now_ms, sequence, id))
  simple.call('SET', key, start.beginning .. simple.pack('>I6I6I6', sequence, clock.now_ms, clock.now_ms) .. simple.sub(entry, simple.AFTER_HEADER))
  simple.call('HINCRBY', names.q, 'bytes', #entry - 16)
  counters.write_now(names, queue, 'enqueued', 1)
  return {id}
end

function single_enqueue.enqueue()
  return #script.arguments == 4 and not numbers.has_request_id() and enqueue_single(script.arguments[3]) or simple_enqueue.enqueue()
end

return single_enqueue
