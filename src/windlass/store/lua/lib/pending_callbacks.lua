-- Pending callbacks. A pending callback is written in the step that ends its job, and outlives the job until it is
-- delivered or given up. Its id is the job's id and a number, because a job that is retried may end again. Pending
-- callbacks are in one list for all, and in one per destination: a process that has no room for a destination skips all
-- of its callbacks at once.
local STATE = require('constants').STATE
local batch = require 'batch'
local clock = require 'clock'
local record = require 'jobs.record'
local keys = require 'keys'
local script = require 'script'
local wakeups = require 'workers.wakeups'

local pending_callbacks = {}

local KEPT_BYTES = 65536 -- of a payload or a result; a longer payload is truncated, a longer result left out
pending_callbacks.PLACE = '\2owed' -- the queue name under which delivering processes wait; no queue has such a name
local DESTINATION = '^[\128-\143]\161d\176(%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x)'
local FIELDS = {'job', 'is_whole', 'result', 'is_too_big', 'attempt', 'tries', 'error', 'token', 'to'}
script.on_start(function() pending_callbacks.has_new = false end)

-- The destination is the first entry of the extras (store/records/record.py), behind a repeat rule. Nothing else is
-- decoded.
local function destination_of(job)
  local at = record.has(job, 'repeats') and 8 + string.byte(job.extras, 7) or 1
  return string.match(job.extras, DESTINATION, at) or ''
end

function pending_callbacks.destination_of(callback) return redis.call('HGET', keys.callback(callback), 'to') or '' end

-- Set the score of a destination to the instant of its first callback.
function pending_callbacks.update_destination(destination)
  local first = redis.call('ZRANGE', keys.destination(destination), 0, 0, 'WITHSCORES')
  if first[2] then
    redis.call('ZADD', keys.destinations(), first[2], destination)
  else
    redis.call('ZREM', keys.destinations(), destination)
  end
end

function pending_callbacks.list(callback, destination, at)
  redis.call('ZADD', keys.pending_callbacks(), at, callback)
  redis.call('ZADD', keys.destination(destination), at, callback)
  pending_callbacks.update_destination(destination)
end

-- A new callback can only make its destination due earlier.
local function list_new(callback, destination, at)
  redis.call('ZADD', keys.pending_callbacks(), at, callback)
  redis.call('ZADD', keys.destination(destination), at, callback)
  redis.call('ZADD', keys.destinations(), 'LT', at, destination)
end

function pending_callbacks.unlist(callback, destination)
  redis.call('ZREM', keys.pending_callbacks(), callback)
  redis.call('ZREM', keys.destination(destination), callback)
  pending_callbacks.update_destination(destination)
end

function pending_callbacks.list_given_up(callback, at)
  redis.call('ZADD', keys.given_up(), at, callback)
  redis.call('ZADD', keys.given_up_ids(), 0, callback)
end

-- Return whether it was listed.
function pending_callbacks.unlist_given_up(callback)
  redis.call('ZREM', keys.given_up_ids(), callback)
  return redis.call('ZREM', keys.given_up(), callback) == 1
end

-- Return the record as the job ended, with the beginning of its payload.
local function record_at_end(job)
  local last = job.head_bytes + KEPT_BYTES
  local raw = #job.raw < math.min(job.bytes, last) and redis.call('GETRANGE', keys.job(job.id), 0, last - 1) or job.raw
  return record.pack_header(job) .. string.sub(raw, record.HEADER_BYTES + 1, last)
end

function pending_callbacks.add(job, result)
  local callback = job.id .. struct.pack('>I6', redis.call('INCR', keys.callback_number()))
  local fits, destination = #result <= KEPT_BYTES, destination_of(job)
  local attempt = job.state ~= STATE.finished and redis.call('LINDEX', keys.attempts(job.id), -1) or ''
  redis.call('HSET', keys.callback(callback), 'job', job.id .. record_at_end(job), 'tries', 0, 'to', destination,
    'is_whole', job.bytes <= job.head_bytes + KEPT_BYTES and 1 or 0,
    'result', fits and result or '', 'is_too_big', fits and 0 or 1, 'attempt', attempt)
  list_new(callback, destination, clock.now_ms)
  pending_callbacks.has_new = true
end

-- Add a callback that belongs to no job: a message about an alert. The caller packs its record, as of an ended job,
-- and wakes the processes that deliver.
function pending_callbacks.add_message(id, entry, destination)
  local callback = id .. struct.pack('>I6', redis.call('INCR', keys.callback_number()))
  redis.call('HSET', keys.callback(callback), 'job', entry, 'tries', 0, 'to', destination, 'is_whole', 1,
    'result', '', 'is_too_big', 0, 'attempt', '', 'is_alert', 1)
  list_new(callback, destination, clock.now_ms)
end

local FLAG_OF = {
  [STATE.finished] = 'owes_finished', [STATE.failed] = 'owes_failed', [STATE.cancelled] = 'owes_cancelled',
}
function pending_callbacks.is_wanted(job) return record.has(job, FLAG_OF[job.state]) end

batch.after_flush(function()
  if pending_callbacks.has_new then wakeups.wake(pending_callbacks.PLACE, nil) end
  pending_callbacks.has_new = false
end)

function pending_callbacks.is_due()
  local first = redis.call('ZRANGE', keys.pending_callbacks(), 0, 0, 'WITHSCORES')
  return first[2] ~= nil and tonumber(first[2]) <= clock.now_ms
end

-- Return nil if the caller holds the lease of the callback, else the refusal.
function pending_callbacks.refusal_of(callback, token)
  local held_by = redis.call('HGET', keys.callback(callback), 'token')
  if held_by == token then return nil end
  return (held_by or redis.call('EXISTS', keys.callback(callback)) == 1) and 'stale_lease' or 'unknown_callback'
end

function pending_callbacks.forget_given_up(callback)
  pending_callbacks.unlist_given_up(callback)
  redis.call('DEL', keys.callback(callback))
end

-- Return {id, field, ...} of a callback, and its bytes. `longest` truncates the payload and leaves out a longer result,
-- for display.
function pending_callbacks.read(callback, longest)
  local values = redis.call('HMGET', keys.callback(callback), unpack(FIELDS))
  local bytes = #callback
  for i = 1, #values do
    values[i] = values[i] or ''
    bytes = bytes + #values[i]
  end
  if longest then
    local head_bytes = struct.unpack('>I2', values[1], 16 + record.HEADER_BYTES - 1)
    local shown = string.sub(values[1], 1, 16 + head_bytes + longest)
    if #shown < #values[1] then values[1], values[2] = shown, '0' end
    if #values[3] > longest then values[3], values[4] = '', '1' end
  end
  table.insert(values, 1, callback)
  return values, bytes
end

return pending_callbacks
