-- Direct handoff: a simple job that is added to an idle queue is leased to a waiting worker and travels with the
-- wakeup. The job is dispatched, so it returns to its queue without a spent attempt if the worker does not accept it in
-- time. The lease of a dead worker need not expire first.
local STATE = require('constants').STATE
local clock = require 'clock'
local simple = require 'fast_path.simple'
local simple_take = require 'fast_path.simple_take'
local counters = require 'jobs.counters'
local new_record = require 'jobs.new_record'
local record = require 'jobs.record'
local keys = require 'keys'
local script = require 'script'
local wakeups = require 'workers.wakeups'

local handoff = {}

local HAND_MS = 2000
local HANDED_BYTES = 16384 -- a take reads a longer leased more cheaply

-- Return the worker of a wakeup list if it may be handed the next job of this queue: only a job that it would take
-- itself.
function handoff.find_worker(names, queue, wakeup_list, is_nothing_set)
  local worker = wakeup_list and #script.arguments[3] <= HANDED_BYTES and simple.call('GET', names.hand .. wakeup_list)
  if not worker or simple.call('HGET', keys.root, 'stopped') or not simple_take.next_instants(names, queue)
    or simple.call('EXISTS', names.ready, names.heads, names.room, names.push_full) > 0 then
    return nil
  end
  return (is_nothing_set or not simple.is_set(simple.call('HGET', names.q, 'fair_share'), 'fair_share')) and worker
end

function handoff.hand_over(names, queue, id, start, worker, wakeup_list, gone)
  local entry, deadline = script.arguments[3], clock.now_ms + HAND_MS
  local sequence, token = simple.call('INCRBY', names.seq, 1), simple.call('INCRBY', names.token, 1)
  local leased = simple.pack(simple_take.LEASED, record.FORMAT, STATE.dispatched, start.flags, start.priority, sequence, clock.now_ms, clock.now_ms, clock.now_ms, 0, token,
    deadline, worker, 1, new_record.FIRST_REVISION, 0, simple.sub(entry, 16 + simple_take.AFTER_PROGRESS))
  simple.call('SET', names.job .. id, leased)
  simple.call('ZADD', names.running, deadline, id)
  simple.call('ZADD', keys.worker_jobs(worker), clock.now_ms, id)
  if simple.call('ZADD', names.lease, 'LT', 'CH', deadline, queue) == 1 then wakeups.wake_loops(deadline) end
  simple.call('HINCRBY', names.q, 'bytes', #entry - 16)
  counters.write_now(names, queue, 'enqueued', 1)
  counters.write_now(names, queue, counters.wait_bucket(0), 1)
  simple.call('ZREM', names.waiters, unpack(gone))
  wakeups.send(wakeup_list, 'H' .. id .. leased)
  return id
end

return handoff
