-- Enqueue of jobs that get numbers and are simple except for two things: each goes into the lane of its name, and holds
-- a unique key that is not checked. Bedrock enqueues such jobs.
local STATE = require('constants').STATE
local FLAG = require('constants').FLAG
local clock = require 'clock'
local simple = require 'fast_path.simple'
local counters = require 'jobs.counters'
local record = require 'jobs.record'
local keys = require 'keys'
local numbers = require 'numbers'
local lanes = require 'queues.lanes'
local script = require 'script'

local numbered_enqueue = {}

local function is_as_usual(flags) return flags <= record.CODEC_BITS or flags - bit.band(flags, record.CODEC_BITS) == FLAG.unique_while_kept end

-- Return the parsed headers and strings of the jobs, and whether all have one name; nil if not all of them are simple.
local function numbered_jobs(size)
  local starts, kinds, are_alike = {}, {}, true
  for i = 1, size do
    local start, kind = simple.parse(script.arguments[2 * i + 3])
    if not start or not is_as_usual(start.flags) or not kind.is_named or script.arguments[2 * i + 4] ~= '' then return nil end
    starts[i], kinds[i] = start, kind
    if kind.queue ~= kinds[1].queue then return nil end
    are_alike = are_alike and kind.name == kinds[1].name
  end
  return starts, kinds, are_alike
end

-- Return the beginning of its record, with the flag for the lane of its name.
local function beginning_by_name(start)
  if not start.by_name then
    start.by_name = simple.pack('>BBI4i4', record.FORMAT, STATE.queued, bit.bor(start.flags, FLAG.name_lane), start.priority)
  end
  return start.by_name
end

-- Return whether the queue is known, has no bounds, and orders jobs in name lanes by priority alone.
local function lets_in_by_name(names)
  local found = simple.call('HMGET', names.q, 'bytes', 'max_length', 'max_bytes', 'aging_ms', 'fair_share', 'name_lanes', 'relane')
  return found[1] and not (simple.is_set(found[2], 'max_length') or simple.is_set(found[3], 'max_bytes') or simple.is_set(found[4], 'aging_ms')
    or simple.is_set(found[5], 'fair_share') or found[7]) and simple.is_set(found[6], 'name_lanes')
end

-- Return the ids of the jobs and the keys of their records (and two more keys); nil if an id is known, a taker waits,
-- or a lane is blocked.
local function new_ids(names, last, size)
  local ids, keys = {}, {}
  for i = 1, size do
    ids[i] = numbers.numbered_id(script.arguments[2 * i + 3], last + i)
    keys[i] = names.job .. ids[i]
  end
  keys[size + 1] = names.waiters
  keys[size + 2] = names.parked_at
  if simple.call('EXISTS', unpack(keys)) > 0 then return nil end
  return ids, keys
end

local function joined(groups, group, score, member)
  local list = groups[group]
  if not list then
    list = {}
    groups[group] = list
  end
  local size = #list
  list[size + 1] = score
  list[size + 2] = member
end

-- Add jobs to a lane behind those of their priority. The head of the lane may change.
local function fill_lane(names, queue, lane, places)
  local key = keys.lane(queue, lane)
  local before, score_before = lanes.head_of(key)
  simple.call('ZADD', key, unpack(places))
  local head, score = lanes.head_of(key)
  if head == before and score == score_before then return end
  if before then simple.call('ZREM', names.heads, before .. lane) end
  simple.call('ZADD', names.heads, score, head .. lane)
  if not before then simple.call('ZADD', names.lane_names, 0, lanes.name_in(lane) .. '\0' .. lane) end
end

local function write_numbered(names, ids, keys, before, starts)
  local places, forms, bytes, now = {}, {}, 0, simple.pack('>I6', clock.now_ms)
  for i = 1, #ids do
    local start, entry, sequence = starts[i], script.arguments[2 * i + 3], simple.pack('>I6', before + i)
    places[2 * i - 1] = start.score
    places[2 * i] = now .. sequence .. ids[i]
    forms[2 * i - 1] = keys[i]
    forms[2 * i] = beginning_by_name(start) .. sequence .. now .. now .. simple.sub(entry, simple.AFTER_HEADER)
    bytes = bytes + #entry - 16
  end
  simple.call('ZADD', names.laned, unpack(places))
  simple.call('MSET', unpack(forms))
  simple.call('HINCRBY', names.q, 'bytes', bytes)
  return places
end

function numbered_enqueue.enqueue()
  local size = (#script.arguments - 4) / 2
  if size > simple.JOBS_MAX then return nil end
  local starts, kinds, are_alike = numbered_jobs(size)
  if not starts then return nil end
  local queue, request, of_call = kinds[1].queue, numbers.request_id()
  local names = simple.keys_of(queue)
  local marks = simple.call('MGET', names.limits_version, names.followed, request, names.number)
  if (marks[1] or '0') ~= script.arguments[4] or marks[2] or numbers.last_reserved(marks[3]) >= of_call or not lets_in_by_name(names) then
    return nil
  end
  local ids, keys = new_ids(names, tonumber(marks[4] or 0), size)
  if not ids then return nil end
  numbers.reserve_once(request, of_call, size)
  local before = simple.call('INCRBY', names.seq, size) - size
  local places = write_numbered(names, ids, keys, before, starts)
  local lanes, holders = {}, {}
  if are_alike then lanes['\0' .. kinds[1].name] = places end
  for i = 1, size do
    local kind = kinds[i]
    if not are_alike then joined(lanes, '\0' .. kind.name, starts[i].score, places[2 * i]) end
    if kind.unique ~= '' then joined(holders, kind.unique, before + i, ids[i]) end
  end
  for lane, own in pairs(lanes) do fill_lane(names, queue, lane, own) end
  for unique, own in pairs(holders) do simple.call('ZADD', names.unique .. unique, unpack(own)) end
  counters.write_now(names, queue, 'enqueued', size)
  return ids
end

return numbered_enqueue
