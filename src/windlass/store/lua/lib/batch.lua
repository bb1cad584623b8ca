-- Batch of pending writes, sent as few variadic commands. For each key (and member) the last write wins.
local script = require 'script'

local batch = {}

local MAX_ARGUMENTS = 4000 -- Lua's stack limits how many arguments unpack can pass

-- Looking up a function of the engine costs as much as running it.
local call
script.once(function() call = redis.call end)

local hooks, steps = {}, {}

-- Call `hook` after each flush.
function batch.after_flush(hook) hooks[#hooks + 1] = hook end
-- Call `step` after the hooks. It returns whether it has written more; then another flush follows.
function batch.on_settle(step) steps[#steps + 1] = step end
script.on_start(function() batch.sorted_sets, batch.values, batch.counts = {}, {}, {} end)

local function z_set(key, member, score)
  local members = batch.sorted_sets[key]
  if not members then
    members = {}
    batch.sorted_sets[key] = members
  end
  members[member] = score
end
function batch.z_add(key, score, member) z_set(key, member, score) end
function batch.z_remove(key, member) z_set(key, member, false) end
function batch.set(key, value) batch.values[key] = value end
function batch.delete(key) batch.values[key] = false end

function batch.increment(key, field, delta)
  local fields = batch.counts[key]
  if not fields then
    fields = {}
    batch.counts[key] = fields
  end
  fields[field] = (fields[field] or 0) + delta
end

function batch.call_in_parts(command, key, list)
  local size = #list
  for first = 1, size, MAX_ARGUMENTS do
    local last = math.min(first + MAX_ARGUMENTS - 1, size)
    if key then
      call(command, key, unpack(list, first, last))
    else
      call(command, unpack(list, first, last))
    end
  end
end

-- Add many scores and members now. By default the engine stores a short sorted set as a list, and each operation scans
-- it: with many changes that is a quarter of the work. A long member makes it a skiplist, which it stays until it is
-- empty.
local MANY = 32 -- elements: scores and members
local LONG_MEMBER = '-----------------------------------------------------------------' -- 65 bytes
function batch.z_add_many(key, list)
  if #list < MANY or call('OBJECT', 'ENCODING', key) == 'skiplist' then
    call('ZADD', key, unpack(list))
  else
    call('ZADD', key, 0, LONG_MEMBER, unpack(list))
    call('ZREM', key, LONG_MEMBER)
  end
end

local function flush_sorted_sets()
  for key, members in pairs(batch.sorted_sets) do
    local adds, drops = {}, {}
    local a, d = 0, 0
    for member, score in pairs(members) do
      if score then
        -- Two statements: a multiple assignment sets the last element first, which makes the table a hash.
        adds[a + 1] = score
        adds[a + 2] = member
        a = a + 2
      else
        d = d + 1
        drops[d] = member
      end
    end
    if d > 0 then batch.call_in_parts('ZREM', key, drops) end
    if a > 0 then batch.call_in_parts('ZADD', key, adds) end
  end
  batch.sorted_sets = {}
end

local function flush_values()
  local sets, removals = {}, {}
  local s, d = 0, 0
  for key, value in pairs(batch.values) do
    if value then
      sets[s + 1] = key
      sets[s + 2] = value
      s = s + 2
    else
      d = d + 1
      removals[d] = key
    end
  end
  if d > 0 then batch.call_in_parts('DEL', nil, removals) end
  if s > 0 then batch.call_in_parts('MSET', nil, sets) end
  batch.values = {}
end

local function flush_counts()
  for key, fields in pairs(batch.counts) do
    for field, delta in pairs(fields) do
      if delta ~= 0 then call('HINCRBY', key, field, delta) end
    end
  end
  batch.counts = {}
end

function batch.flush()
  local has_written
  repeat
    flush_sorted_sets()
    flush_values()
    flush_counts()
    for _, step in ipairs(hooks) do step() end
    has_written = false
    for _, step in ipairs(steps) do has_written = step() or has_written end
  until not has_written
end

return batch
