-- Fast path of enqueue: simple jobs of one queue (simple.lua), and numbered jobs, which Bedrock enqueues.
-- Tables are filled element by element, in order: `a[1], a[2] = x, y` sets the last element first, which makes the
-- table a hash.
local clock = require 'clock'
local handoff = require 'fast_path.handoff'
local simple = require 'fast_path.simple'
local counters = require 'jobs.counters'
local ended_ids = require 'jobs.ended_ids'
local new_record = require 'jobs.new_record'
local record = require 'jobs.record'
local keys = require 'keys'
local numbers = require 'numbers'
local lanes = require 'queues.lanes'
local script = require 'script'
local wakeups = require 'workers.wakeups'

local fast_enqueue = {}

local call, sub, pack_bytes
script.once(function() call, sub, pack_bytes = redis.call, string.sub, struct.pack end)

local new_job = simple.new_job -- looked up once: it is called for every job

-- Return the ids and headers of the jobs, and their queue; nil if not all of them are simple.
local function read_jobs(arguments, size)
  local ids, headers, queue, seen = {}, {}, nil, size > 1 and {}
  for i = 1, size do
    local entry = arguments[2 * i + 1]
    local id, header, strings = sub(entry, 1, 16), new_job(entry, arguments[2 * i + 2], 'is_simple')
    if not header then return nil end
    if i == 1 then queue = strings.queue elseif strings.queue ~= queue or seen[id] then return nil end
    ids[i], headers[i] = id, header
    if seen then seen[id] = true end
  end
  return ids, headers, queue
end

-- Return lane members with scores, records by key, and the bytes of the records. `start` names the first bytes of a
-- record in its header.
local function pack_jobs(names, arguments, items_at, ids, headers, start, last_sequence)
  local members, records, bytes, now = {}, {}, 0, record.pack_number(clock.now_ms)
  local member, pack, job_prefix = lanes.member, new_record.pack, names.job
  for i = 1, #ids do
    local id, header, entry = ids[i], headers[i], arguments[items_at + 2 * i - 2]
    local sequence = pack_bytes('>I6', last_sequence + i)
    members[2 * i - 1] = header.score
    members[2 * i] = member(now, sequence, id)
    records[2 * i - 1] = job_prefix .. id
    records[2 * i] = pack(header[start], sequence, now, now, entry)
    bytes = bytes + #entry - 16
  end
  return members, records, bytes
end

local function note_growth(names, queue, size, bytes)
  call('HINCRBY', names.queue, 'bytes', bytes)
  counters.write_now(names, queue, 'enqueued', size)
end

local function wake_takers(names, queue, wakeup_lists, gone, filters)
  call('ZREM', names.waiters, unpack(gone))
  for i = 1, #wakeup_lists do wakeups.wake_taker(queue, wakeup_lists[i], filters[i]) end
end

-- One job, which is the most frequent call: as below, without the lists.
local function enqueue_one(entry, terms, version)
  local header, strings = simple.new_job(entry, terms, 'is_simple')
  if not header then return nil end
  local queue, id = strings.queue, sub(entry, 1, 16)
  local names = keys.kept_of(queue)
  -- If exactly one of these keys exists, it must be `waiters`; otherwise no waiter is found, and there is no handoff.
  local found = call('EXISTS', names.job .. id, names.waiters, names.followed)
  if found > 1 then return nil end
  local config = simple.config_of(names)
  local is_current = (call('GET', names.limits_version) or '0') == version
  if not simple.accepts(config) or not is_current or ended_ids.has(id) then return nil end
  if found == 1 then return handoff.try(names, queue, config, id, header, entry) end
  local now, sequence = record.pack_number(clock.now_ms), record.pack_number(call('INCR', names.sequence))
  call('ZADD', names.ready, header.score, lanes.member(now, sequence, id))
  call('SET', names.job .. id, new_record.pack(header.start, sequence, now, now, entry))
  note_growth(names, queue, 1, #entry - 16)
  return {id}
end

-- Return the ids of the added jobs, or nil.
local function enqueue_many(arguments, version)
  local size = (#arguments - 2) / 2
  local ids, headers, queue = nil, nil, nil
  if size <= simple.JOBS_MAX then ids, headers, queue = read_jobs(arguments, size) end
  if not ids then return nil end
  local names = keys.kept_of(queue)
  local marks = call('MGET', names.limits_version, names.followed, names.sequence)
  if (marks[1] or '0') ~= version or marks[2] then return nil end
  local config = simple.config_of(names)
  if not simple.accepts(config) or ended_ids.has_any(ids) then return nil end
  local wakeup_lists, gone, filters = nil, nil, nil
  if call('EXISTS', names.waiters) == 1 then
    wakeup_lists, gone, filters = simple.waiters(names, config, size)
    if not wakeup_lists then return nil end
  end
  local members, records, bytes = pack_jobs(names, arguments, 3, ids, headers, 'start', tonumber(marks[3] or 0))
  -- If one of the records exists, MSETNX writes nothing.
  if call('MSETNX', unpack(records)) == 0 then return nil end
  call('INCRBY', names.sequence, size)
  call('ZADD', names.ready, unpack(members))
  note_growth(names, queue, size, bytes)
  if wakeup_lists then wake_takers(names, queue, wakeup_lists, gone, filters) end
  return ids
end

-- Numbered jobs

-- Return the headers and strings of the jobs, and whether all have one name; nil if not all of them are simple.
local function read_numbered_jobs(arguments, size)
  local headers, strings, are_alike = {}, {}, true
  for i = 1, size do
    local header, own = simple.new_job(arguments[2 * i + 3], arguments[2 * i + 4], 'is_numbered')
    if not header then return nil end
    headers[i], strings[i] = header, own
    if own.queue ~= strings[1].queue then return nil end
    are_alike = are_alike and own.name == strings[1].name
  end
  return headers, strings, are_alike
end

-- Return the ids of the jobs; nil if an id is known, a taker waits, or a lane is blocked.
local function make_ids(names, arguments, last_number, size)
  local ids, checked = {}, {}
  for i = 1, size do
    ids[i] = numbers.numbered_id(arguments[2 * i + 3], last_number + i)
    checked[i] = names.job .. ids[i]
  end
  checked[size + 1] = names.waiters
  checked[size + 2] = names.blocked_by
  if call('EXISTS', unpack(checked)) > 0 then return nil end
  return ids
end

local function append(groups, group, score, member)
  local list = groups[group]
  if not list then
    list = {}
    groups[group] = list
  end
  local size = #list
  list[size + 1] = score
  list[size + 2] = member
end

-- Add the jobs to the lanes of their names, and as holders of their unique keys.
local function enter_lanes(names, queue, ids, headers, strings, are_alike, members, last_sequence)
  local by_lane, by_unique_key = {}, {}
  if are_alike then by_lane['\0' .. strings[1].name] = members end
  for i = 1, #ids do
    local own = strings[i]
    if not are_alike then append(by_lane, '\0' .. own.name, headers[i].score, members[2 * i]) end
    if own.unique ~= '' then append(by_unique_key, own.unique, last_sequence + i, ids[i]) end
  end
  for lane, of_lane in pairs(by_lane) do lanes.append(names, queue, lane, of_lane) end
  for unique, holders in pairs(by_unique_key) do call('ZADD', keys.unique(queue, unique), unpack(holders)) end
end

local function enqueue_numbered(arguments, request_key, request, version)
  local size = (#arguments - 4) / 2
  local headers, strings, are_alike = nil, nil, nil
  if size <= simple.JOBS_MAX then headers, strings, are_alike = read_numbered_jobs(arguments, size) end
  if not headers then return nil end
  local queue = strings[1].queue
  local names = keys.kept_of(queue)
  local marks = call('MGET', names.limits_version, names.followed, request_key, names.number)
  if (marks[1] or '0') ~= version or marks[2] or numbers.read_reserved(marks[3]) >= request
    or not simple.accepts_numbered(simple.config_of(names)) then
    return nil
  end
  local ids = make_ids(names, arguments, tonumber(marks[4] or 0), size)
  if not ids then return nil end
  numbers.reserve_once(request_key, request, size)
  local last_sequence = call('INCRBY', names.sequence, size) - size
  local members, records, bytes = pack_jobs(names, arguments, 5, ids, headers, 'start_in_name_lane', last_sequence)
  call('ZADD', names.laned, unpack(members))
  call('MSET', unpack(records))
  enter_lanes(names, queue, ids, headers, strings, are_alike, members, last_sequence)
  note_growth(names, queue, size, bytes)
  return ids
end

-- The first arguments are a request id and a version, or a version, a job and its terms.
function fast_enqueue.enqueue(arguments, first, second, third)
  local request_key, request = numbers.read_request(first, second)
  if request_key then return enqueue_numbered(arguments, request_key, request, third) end
  return #arguments == 4 and enqueue_one(second, third, first) or enqueue_many(arguments, first)
end

return fast_enqueue
