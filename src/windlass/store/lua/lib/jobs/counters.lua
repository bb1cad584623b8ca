-- uses: keys, clock, batch
-- Counters per queue and minute, for charts. Counts of current jobs come from the indexes, not from here.
local TALLY_TTL_S = 172800
local MINUTE_MS = 60000
local tallies
at_start[#at_start + 1] = function() tallies = {} end

local function tally(queue, what, delta)
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
local TALLIED = {'enqueued', 'taken', 'finished', 'failed', 'retried', 'cancelled', 'recovered', 'wait_ms', 'run_ms'}
for bits = 0, BITS_MAX do
  TALLIED[#TALLIED + 1] = WAITED[bits]
  TALLIED[#TALLIED + 1] = RAN[bits]
end

local function span_name(names, span_ms)
  local _, bits = math.frexp(span_ms)
  return names[bits < BITS_MAX and bits or BITS_MAX]
end

local function wait_span(waited_ms) return span_name(WAITED, waited_ms) end
local function run_span(ran_ms) return span_name(RAN, ran_ms) end

-- A taken job is counted by its wait. Only report_worker.lua counts `taken` instead, for leases without a wait; readers
-- add both.
local function tally_taken(queue, waited_ms)
  tally(queue, wait_span(waited_ms), 1)
end

-- The sum of the run counters is the number of jobs that finished after a run. `finished` counts the others (`ran_ms`
-- nil).
local function tally_finished(queue, ran_ms)
  tally(queue, ran_ms and run_span(ran_ms) or 'finished', 1)
end

-- Return the hash of the queue's hour, and the prefix of this minute's fields.
local function tally_place(queue)
  local minute = math.floor(now_ms / 60000)
  return P .. 'm:' .. queue .. '\0' .. math.floor(minute / 60), (minute % 60) .. ':'
end

local tally_call
local function write_tally(key, field, delta)
  if delta == 0 then return end
  if not tally_call then tally_call = redis.call end
  local total = tally_call('HINCRBY', key, field, delta)
  if total == delta then tally_call('EXPIRE', key, TALLY_TTL_S) end
end

-- Count at once, for the fast path, which does not batch its writes. `names` (plain.lua) caches the fields of a minute.
local function tally_now(names, queue, what, delta)
  if now_ms >= names.minute_ends_at or now_ms < names.minute_ends_at - MINUTE_MS then
    names.minute_ends_at = MINUTE_MS * (math.floor(now_ms / MINUTE_MS) + 1)
    names.fields, names.tally, names.prefix = {}, tally_place(queue)
  end
  local field = names.fields[what]
  if not field then
    field = names.prefix .. what
    names.fields[what] = field
  end
  write_tally(names.tally, field, delta)
end

after_flush[#after_flush + 1] = function()
  if next(tallies) == nil then return end
  for queue, fields in pairs(tallies) do
    local key, minute = tally_place(queue)
    for what, delta in pairs(fields) do write_tally(key, minute .. what, delta) end
  end
  tallies = {}
end
