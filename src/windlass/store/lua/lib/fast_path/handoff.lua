-- Direct handoff: a simple job that is added to an idle queue is leased to a waiting worker and travels with the
-- wakeup. The job is dispatched, so it returns to its queue without a spent attempt if the worker does not accept it in
-- time. The lease of a dead worker need not expire first.
local STATE = require('constants').STATE
local clock = require 'clock'
local simple = require 'fast_path.simple'
local counters = require 'jobs.counters'
local index = require 'jobs.index'
local new_record = require 'jobs.new_record'
local record = require 'jobs.record'
local keys = require 'keys'
local lease_header = require 'leases.lease_header'
local script = require 'script'
local wakeups = require 'workers.wakeups'

local handoff = {}

local ACCEPT_MS = 2000
local ENTRY_BYTES_MAX = 16384 -- a take reads a longer record more cheaply

local call, sub
script.once(function() call, sub = redis.call, string.sub end)

-- Return the worker of a wakeup list if it may be handed the next job of this queue: only a job that it would take
-- itself.
local function find_worker(names, queue, config, wakeup_list, entry)
  local worker = wakeup_list and #entry <= ENTRY_BYTES_MAX and call('GET', keys.handoff(wakeup_list))
  if not worker or call('HGET', keys.root, 'stopped') or not simple.next_instants(names, queue)
    or call('EXISTS', names.ready, names.heads, names.room, names.push_full) > 0 then
    return nil
  end
  return not simple.is_set(config.fair_share, 'fair_share') and worker
end

local function pack_leased(header, sequence, token, deadline, worker, entry)
  local now_ms = clock.now_ms
  local job = {
    flags = header.flags, priority = header.priority, sequence = sequence, created_at = now_ms, ready_at = now_ms,
    ended_at = 0, revision = new_record.FIRST_REVISION, head_bytes = header.strings_end - 16,
  }
  lease_header.set(job, STATE.dispatched, token, deadline, worker, 1)
  return record.pack_header(job) .. sub(entry, 17 + record.HEADER_BYTES)
end

local function hand_over(names, queue, id, header, entry, worker, wakeup_list, gone)
  local deadline = clock.now_ms + ACCEPT_MS
  local sequence, token = call('INCRBY', names.sequence, 1), call('INCRBY', names.token, 1)
  local raw = pack_leased(header, sequence, token, deadline, worker, entry)
  call('SET', names.job .. id, raw)
  call('ZADD', names.running, deadline, id)
  call('ZADD', keys.worker_jobs(worker), clock.now_ms, id)
  index.lower_timer('lease', queue, deadline)
  call('HINCRBY', names.queue, 'bytes', #entry - 16)
  counters.write_now(names, queue, 'enqueued', 1)
  counters.write_now(names, queue, counters.wait_bucket(0), 1)
  call('ZREM', names.waiters, unpack(gone))
  wakeups.send(wakeup_list, 'H' .. id .. raw)
end

-- Hand a new job to a waiting worker. Returns its id in a list; nil if there is no such worker.
function handoff.try(names, queue, config, id, header, entry)
  local wakeup_lists, gone = simple.waiters(names, config, 1)
  local worker = wakeup_lists and find_worker(names, queue, config, wakeup_lists[1], entry)
  if not worker then return nil end
  hand_over(names, queue, id, header, entry, worker, wakeup_lists[1], gone)
  return {id}
end

return handoff
