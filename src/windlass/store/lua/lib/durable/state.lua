-- Durable state of a job, in one hash beside its record. Fields: s + name: a step; m + number: an unread signal.
-- Numbers and marks: n last number of a step, c steps, b bytes of steps and signals, k suspensions, w names of the
-- steps that a suspended job waits for, t since when, l token of its last suspension, z it was woken and has not run
-- since, r rounds (how often a person retried it), y it has yielded to children, g last number of a signal, q unread
-- signals in order, i request ids of the last signals; u + request id: a link for one signal that was used. Fields of
-- its stream: x last position, xb bytes, xt token of the last writer, xs values that this writer has written, xa
-- attempt and round of the last value, o values written outside of steps.
local STEP_KIND = require('constants').STEP_KIND
local STEP_STATUS = require('constants').STEP_STATUS
local batch = require 'batch'
local record = require 'jobs.record'
local keys = require 'keys'

local state = {}

-- kind, status, number, begun, ended (0: not yet), wakes at (0: never), tries, detail; the value with its codec
-- follows. The detail of a wait for a signal is the name of the signal; of a wait for children, '1' if it needs all of
-- them, else '0', and their ids.
local STEP = '>BBI4I6I6I6I4I2c0'

function state.unpack_step(packed)
  local kind, status, number, begun_at, ended_at, wake_at, tries, detail, at = struct.unpack(STEP, packed)
  return {
    kind = kind, status = status, number = number, begun_at = begun_at, ended_at = ended_at, wake_at = wake_at,
    tries = tries, detail = detail, value = string.sub(packed, at), bytes = #packed,
  }
end

local function pack_step(step)
  return struct.pack(STEP, step.kind, step.status, step.number, step.begun_at, step.ended_at, step.wake_at, step.tries,
    #step.detail, step.detail) .. step.value
end

-- Return the step of a name, or nil.
function state.load_step(job, name)
  if not record.has(job, 'durable') then return nil end
  local packed = redis.call('HGET', keys.durable(job.id), 's' .. name)
  return packed and state.unpack_step(packed) or nil
end

-- Count bytes of steps and signals in the queue.
local function count_in_queue(job, delta)
  if not record.is_ended(job) then
    batch.increment(keys.queue(job.queue), 'bytes', delta)
  elseif record.has(job, 'in_history') then
    batch.increment(keys.queue(job.queue), 'history_bytes_now', delta)
  end
end

-- Count bytes of steps and signals, in the hash and in the queue.
function state.count_bytes(job, delta)
  redis.call('HINCRBY', keys.durable(job.id), 'b', delta)
  count_in_queue(job, delta)
end

-- Return the last number of a step, the number of steps, and the bytes of steps and signals.
function state.load_counters(job)
  local found = redis.call('HMGET', keys.durable(job.id), 'n', 'c', 'b')
  return {number = tonumber(found[1] or 0), steps = tonumber(found[2] or 0), bytes = tonumber(found[3] or 0)}
end

-- Write a new step, which gets the next number. Step and counters are written by one command.
function state.add_step(job, name, step, counters)
  step.number = counters.number + 1
  local packed = pack_step(step)
  step.bytes = #packed
  redis.call('HSET', keys.durable(job.id), 's' .. name, packed, 'n', step.number, 'c', counters.steps + 1,
    'b', counters.bytes + #packed + #name)
  count_in_queue(job, #packed + #name)
  return packed
end

-- Write a step again that was loaded.
function state.save_step(job, name, step)
  local packed, bytes_before = pack_step(step), step.bytes
  redis.call('HSET', keys.durable(job.id), 's' .. name, packed)
  step.bytes = #packed
  if #packed ~= bytes_before then state.count_bytes(job, #packed - bytes_before) end
  return packed
end

-- Remove the steps for which `is_dropped(step)` is true. Returns their number.
function state.drop_steps(job, is_dropped)
  local key, dropped, bytes = keys.durable(job.id), {}, 0
  local fields = redis.call('HGETALL', key)
  for i = 1, #fields, 2 do
    if string.sub(fields[i], 1, 1) == 's' and is_dropped(state.unpack_step(fields[i + 1])) then
      dropped[#dropped + 1] = fields[i]
      bytes = bytes + #fields[i] - 1 + #fields[i + 1]
    end
  end
  if #dropped == 0 then return 0 end
  redis.call('HDEL', key, unpack(dropped))
  redis.call('HINCRBY', key, 'c', -#dropped)
  state.count_bytes(job, -bytes)
  return #dropped
end

-- Forget the waits of a job that is not suspended any more, and that it was woken.
function state.forget_waits(job)
  if record.has(job, 'durable') then redis.call('HDEL', keys.durable(job.id), 'w', 't', 'z') end
end

-- Begin another round of a job that a person retries. Results stay; a step that failed for good runs again. The
-- children of an open wait were cancelled when the job ended, so the next run creates others.
function state.begin_round(job)
  if not record.has(job, 'durable') then return end
  state.drop_steps(job, function(step)
    return step.status == STEP_STATUS.failed or step.status == STEP_STATUS.timed_out
      or step.kind == STEP_KIND.children and step.status == STEP_STATUS.waiting
  end)
  redis.call('HINCRBY', keys.durable(job.id), 'r', 1)
end

-- Remove everything: the next occurrence of a job starts empty. The job is in no index now.
function state.clear(job)
  if not record.has(job, 'durable') then return end
  batch.increment(keys.queue(job.queue), 'bytes', job.bytes - record.total_bytes(job))
  redis.call('DEL', keys.durable(job.id), keys.stream(job.id))
  record.unmark(job, 'durable')
  record.unmark(job, 'needs_steps')
end

-- Return whether a suspension has ended and the job has not run since. The mark is removed.
function state.take_woken(job)
  return record.has(job, 'needs_steps') and redis.call('HDEL', keys.durable(job.id), 'z') == 1
end

-- Note that a job waits for children that it has spawned: its next run reads their outcomes.
function state.note_yield(job)
  if record.has(job, 'durable') then redis.call('HSET', keys.durable(job.id), 'y', 1) end
end

-- Create the hash of a job that has lost it.
function state.restore_empty(job) redis.call('HSET', keys.durable(job.id), 'n', 0) end

return state
