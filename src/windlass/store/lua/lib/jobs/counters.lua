-- Counters per queue and minute, for charts. Counts of current jobs come from the indexes, not from here.
local batch = require 'batch'
local clock = require 'clock'
local keys = require 'keys'
local script = require 'script'

local counters = {}

local TTL_S = 172800
local MINUTE_MS = 60000
local pending
script.on_start(function() pending = {} end)

function counters.add(queue, what, delta)
  local fields = pending[queue]
  if not fields then
    fields = {}
    pending[queue] = fields
  end
  fields[what] = (fields[what] or 0) + delta
end

-- Durations are counted by their number of bits, so that few counters suffice for a median: 3 bits are 4 to 7 ms.
local BITS_MAX = 31
local WAITED, RAN = {}, {}
for bits = 0, BITS_MAX do WAITED[bits], RAN[bits] = 'w' .. bits, 'r' .. bits end
counters.NAMES = {'enqueued', 'taken', 'finished', 'failed', 'retried', 'cancelled', 'recovered', 'wait_ms', 'run_ms'}
for bits = 0, BITS_MAX do
  counters.NAMES[#counters.NAMES + 1] = WAITED[bits]
  counters.NAMES[#counters.NAMES + 1] = RAN[bits]
end

local function bucket_of(names, duration_ms)
  local _, bits = math.frexp(duration_ms)
  return names[bits < BITS_MAX and bits or BITS_MAX]
end

function counters.wait_bucket(waited_ms) return bucket_of(WAITED, waited_ms) end
function counters.run_bucket(ran_ms) return bucket_of(RAN, ran_ms) end

-- A taken job is counted by its wait. Only report_worker.lua counts `taken` instead, for leases without a wait; readers
-- add both.
function counters.add_taken(queue, waited_ms)
  counters.add(queue, counters.wait_bucket(waited_ms), 1)
end

-- The sum of the run counters is the number of jobs that finished after a run. `finished` counts the others (`ran_ms`
-- nil).
function counters.add_finished(queue, ran_ms)
  counters.add(queue, ran_ms and counters.run_bucket(ran_ms) or 'finished', 1)
end

-- Return the hash of the queue's hour, and the prefix of this minute's fields.
local function place_of(queue)
  local minute = math.floor(clock.now_ms / MINUTE_MS)
  return keys.counters(queue, math.floor(minute / 60)), (minute % 60) .. ':'
end

local call
script.once(function() call = redis.call end)
local function write(key, field, delta)
  if delta == 0 then return end
  local total = call('HINCRBY', key, field, delta)
  if total == delta then call('EXPIRE', key, TTL_S) end
end

-- Count at once, for the fast path, which does not batch its writes. `names` (keys.kept_of) keeps the fields of a
-- minute.
function counters.write_now(names, queue, what, delta)
  local now_ms = clock.now_ms
  if now_ms >= names.minute_ends_at or now_ms < names.minute_ends_at - MINUTE_MS then
    names.minute_ends_at = MINUTE_MS * (math.floor(now_ms / MINUTE_MS) + 1)
    names.fields, names.counters, names.minute = {}, place_of(queue)
  end
  local field = names.fields[what]
  if not field then
    field = names.minute .. what
    names.fields[what] = field
  end
  write(names.counters, field, delta)
end

batch.after_flush(function()
  if next(pending) == nil then return end
  for queue, fields in pairs(pending) do
    local key, minute = place_of(queue)
    for what, delta in pairs(fields) do write(key, minute .. what, delta) end
  end
  pending = {}
end)

return counters
