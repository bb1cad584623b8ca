-- Batch of pending writes, sent as few variadic commands. For each key (and member) the last write wins.
local MAX_ARGUMENTS = 4000 -- Lua's stack limits how many arguments unpack can pass

local z_pending, value_pending, count_pending
local after_flush = {}
local consequences = {} -- steps that may write again; each returns whether it did
at_start[#at_start + 1] = function() z_pending, value_pending, count_pending = {}, {}, {} end

local function z_set(key, member, score)
  local members = z_pending[key]
  if not members then
    members = {}
    z_pending[key] = members
  end
  members[member] = score
end
local function z_add(key, score, member) z_set(key, member, score) end
local function z_drop(key, member) z_set(key, member, false) end
local function put(key, value) value_pending[key] = value end
local function remove(key) value_pending[key] = false end

local function count(key, field, delta)
  local fields = count_pending[key]
  if not fields then
    fields = {}
    count_pending[key] = fields
  end
  fields[field] = (fields[field] or 0) + delta
end

local function call_in_steps(command, key, list)
  local size = #list
  for first = 1, size, MAX_ARGUMENTS do
    local last = math.min(first + MAX_ARGUMENTS - 1, size)
    if key then
      redis.call(command, key, unpack(list, first, last))
    else
      redis.call(command, unpack(list, first, last))
    end
  end
end

local function flush_sorted_sets()
  for key, members in pairs(z_pending) do
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
    if d > 0 then call_in_steps('ZREM', key, drops) end
    if a > 0 then call_in_steps('ZADD', key, adds) end
  end
  z_pending = {}
end

local function flush_values()
  local sets, removals = {}, {}
  local s, r = 0, 0
  for key, value in pairs(value_pending) do
    if value then
      sets[s + 1] = key
      sets[s + 2] = value
      s = s + 2
    else
      r = r + 1
      removals[r] = key
    end
  end
  if r > 0 then call_in_steps('DEL', nil, removals) end
  if s > 0 then call_in_steps('MSET', nil, sets) end
  value_pending = {}
end

local function flush_counts()
  for key, fields in pairs(count_pending) do
    for field, delta in pairs(fields) do
      if delta ~= 0 then redis.call('HINCRBY', key, field, delta) end
    end
  end
  count_pending = {}
end

local function flush()
  local has_written
  repeat
    flush_sorted_sets()
    flush_values()
    flush_counts()
    for _, step in ipairs(after_flush) do step() end
    has_written = false
    for _, step in ipairs(consequences) do has_written = step() or has_written end
  until not has_written
end
