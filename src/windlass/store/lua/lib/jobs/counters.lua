-- Counters per queue and minute, for charts. Counts of current jobs come from the indexes, not from here.
local batch = require 'batch'
local clock = require 'clock'
local keys = require 'keys'
local script = require 'script'

local counters = {}

local TALLY_TTL_S = 172800
local MINUTE_MS = 60000
local tallies
script.on_start(function() tallies = {} end)

function counters.add(queue, what, delta)
  local fields = tallies[queue]
  if not fields then
    fields = {}
    tallies[queue] = fields
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

local function span_name(names, span_ms)
  local _, bits = math.frexp(span_ms)
  return names[bits < BITS_MAX and bits or BITS_MAX]
end

function counters.wait_bucket(waited_ms) return span_name(WAITED, waited_ms) end
function counters.run_bucket(ran_ms) return span_name(RAN, ran_ms) end

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
local function tally_place(queue)
  local minute = math.floor(clock.now_ms / 60000)
  return keys.counters(queue, math.floor(minute / 60)), (minute % 60) .. ':'
end

local tally_call
local function write_tally(key, field, delta)
  if delta == 0 then return end
  if not tally_call then tally_call = redis.call end
  local total = tally_call('HINCRBY', key, field, delta)
  if total == delta then tally_call('EXPIRE', key, TALLY_TTL_S) end
end

-- Count at once, for the fast path, which does not batch its writes. `names` (plain.lua) caches the fields of a minute.
function counters.write_now(names, queue, what, delta)
  if clock.now_ms >= names.minute_ends_at or clock.now_ms < names.minute_ends_at - MINUTE_MS then
    names.minute_ends_at = MINUTE_MS * (math.floor(clock.now_ms / MINUTE_MS) + 1)
    names.fields, names.tally, names.prefix = {}, tally_place(queue)
  end
  local field = names.fields[what]
  if not field then
    field = names.prefix .. what
    names.fields[what] = field
  end
  write_tally(names.tally, field, delta)
end

batch.after_flush(function()
  if next(tallies) == nil then return end
  for queue, fields in pairs(tallies) do
    local key, minute = tally_place(queue)
    for what, delta in pairs(fields) do write_tally(key, minute .. what, delta) end
  end
  tallies = {}
end)

return counters
