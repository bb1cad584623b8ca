-- Take of simple jobs from default lanes, alone or together with finishes (plain.lua).
local STATE = require('constants').STATE
local DEFAULT = require('constants').DEFAULT
local clock = require 'clock'
local simple = require 'fast_path.simple'
local simple_finish = require 'fast_path.simple_finish'
local counters = require 'jobs.counters'
local new_record = require 'jobs.new_record'
local record = require 'jobs.record'
local keys = require 'keys'
local script = require 'script'
local wakeups = require 'workers.wakeups'

local simple_take = {}

-- Fields of a queued record: format and state as one number, flags, unchanged fields up to the ready time, fields that
-- a first lease overwrites, bytes of the head. The job's lane entry contains the ready time too.
local QUEUED_PLAIN = '>I2I4c22c52I2'
simple_take.LEASED = '>BBI4i4I6I6I6I6I6I6I6c16I4I4I4c0' -- a header as in record.lua; the rest is unchanged
simple_take.AFTER_PROGRESS = record.HEADER_BYTES - 1

local MANY_ADDED = 32 -- elements: scores and members
local LONG_MEMBER = '-----------------------------------------------------------------' -- 65 bytes

local QUEUED_FORM, UNTAKEN, RUNNING
script.on_begin(function()
  if UNTAKEN then return end
  QUEUED_FORM, RUNNING = 256 * record.FORMAT + STATE.queued, {}
  UNTAKEN = simple.pack('>I6I6I6I6c16I4I4I4', 0, 0, 0, 0, record.NOBODY, 0, new_record.FIRST_REVISION, 0)
  for flags = 0, record.CODEC_BITS do RUNNING[flags] = simple.pack('>BBI4', record.FORMAT, STATE.running, flags) end
end)

-- Return the instants of a queue's timers; nil if something is due.
function simple_take.next_instants(names, queue)
  local overdue = tonumber(simple.call('ZSCORE', names.lease, queue) or math.huge)
  local due = tonumber(simple.call('ZSCORE', names.due, queue) or math.huge)
  if overdue <= clock.now_ms or due <= clock.now_ms then return nil end
  return overdue, due
end

-- Return the instants of a queue's timers, and whether others wait there; nil if the queue has other lanes or something
-- is due.
local function quiet_queue(queue)
  local names = simple.keys_of(queue)
  local found = simple.call('EXISTS', names.heads, names.room, names.waiters, names.followed, names.push_full)
  if found > 1 or found == 1 and simple.call('EXISTS', names.waiters) == 0 then return nil end
  local overdue, due = simple_take.next_instants(names, queue)
  return overdue, due, found == 1
end

-- Return the lease of one kind of job in this call: deadline, instant at which the recoverer checks it, and the header
-- after the token for a first lease. Returns nil if such a lease is not simple.
local function make_terms(leases, of_queue, kind)
  local lease_ms, timeout_ms = leases.lease_ms, kind.timeout_ms
  if lease_ms == 0 then lease_ms = kind.lease_ms end
  if lease_ms == 0 then lease_ms = of_queue.lease_ms end
  if lease_ms >= record.FOREVER_MS then return nil end
  local deadline = clock.now_ms + lease_ms
  local at = timeout_ms > 0 and timeout_ms < lease_ms and clock.now_ms + timeout_ms or deadline
  if at < of_queue.overdue then return nil end
  local terms = {deadline = deadline, at = string.format('%.0f', at),
    first = simple.pack('>I6c16I4I4I4', deadline, leases.worker, 1, new_record.FIRST_REVISION, 0)}
  of_queue.terms[kind] = terms
  return terms
end

-- Return the record of a job that was leased or changed before.
local function leased_again(leases, id, raw, token, deadline)
  local _, _, flags, priority, sequence, created_at, ready_at, started_at, ended_at, _, _, _, attempt, revision =
    simple.unpacked(record.HEADER, raw)
  if started_at > 0 then
    local before = leases.started_before
    before[#before + 1] = id
    before[#before + 1] = started_at
  end
  return simple.pack(simple_take.LEASED, record.FORMAT, STATE.running, flags, priority, sequence, created_at, ready_at, clock.now_ms, ended_at, token,
    deadline, leases.worker, attempt + 1, revision, 0, simple.sub(raw, simple_take.AFTER_PROGRESS))
end

local function note_wait(of_queue, waited_ms)
  local span = counters.wait_bucket(waited_ms)
  of_queue.spans[span] = (of_queue.spans[span] or 0) + 1
  of_queue.waited_ms = of_queue.waited_ms + waited_ms
end

-- Of a long record only the header is written; the other records are written together.
local function write_later(leases, key, leased)
  if #leased > record.SMALL_BYTES then
    leases.patched[key] = simple.sub(leased, 1, record.HEADER_BYTES)
    return
  end
  local written, size = leases.written, leases.size
  written[size + 1] = key
  written[size + 2] = leased
  leases.size = size + 2
end

-- Add a lease to `leases`; return false if it is not simple.
function simple_take.add_lease(leases, of_queue, place, key, raw)
  local form, flags, since, taken, head_bytes = simple.unpacked(QUEUED_PLAIN, raw)
  local kind = form == QUEUED_FORM and flags <= record.CODEC_BITS and simple.kind_of(simple.sub(raw, simple.STRINGS_AT, head_bytes))
  local terms = kind and kind.is_plain and (of_queue.terms[kind] or make_terms(leases, of_queue, kind))
  if not terms then return false end
  local ready_at, _, id = simple.unpacked(simple.MEMBER, place)
  local number, leased = leases.number + 1, nil
  local token = leases.token + number
  if taken == UNTAKEN then
    leased = RUNNING[flags] .. since .. leases.began .. simple.pack('>I6', token) .. terms.first .. simple.sub(raw, simple_take.AFTER_PROGRESS)
  else
    leased = leased_again(leases, id, raw, token, terms.deadline)
  end
  leases.number, leases.answers[number] = number, id .. leased
  write_later(leases, key, leased)
  leases.holding[2 * number - 1] = leases.instant
  leases.holding[2 * number] = id
  local running, size = of_queue.running, of_queue.size
  running[size + 1] = terms.at
  running[size + 2] = id
  of_queue.size = size + 2
  note_wait(of_queue, ready_at < clock.now_ms and clock.now_ms - ready_at or 0)
  return true
end

-- Add the jobs of a queue; return nil if not all of them are simple.
local function add_leases(leases, queue, most)
  local names = simple.keys_of(queue)
  local found = simple.call('HMGET', names.q, 'paused', 'fair_share', 'lease_ms', 'history_length')
  if found[1] or simple.is_set(found[2], 'fair_share') then return nil end
  leases.has_no_history[queue] = not simple.is_set(found[4], 'history_length')
  local overdue, due, do_others_wait = quiet_queue(queue)
  if not overdue then return nil end
  leases.following = math.min(leases.following, overdue, due)
  local places = simple.call('ZRANGE', names.ready, 0, most - 1)
  if #places == 0 then return true end
  -- The general path offers the rest of a full batch to other takers.
  if do_others_wait and #places == most and simple.call('ZCARD', names.ready) > most then return nil end
  local of_queue = {queue = queue, places = places, lease_ms = tonumber(found[3] or DEFAULT.lease_ms), overdue = overdue,
    terms = {}, running = {}, size = 0, spans = {}, waited_ms = 0}
  local keys = {}
  for i = 1, #places do keys[i] = names.job .. simple.sub(places[i], 13) end
  local raws = record.read_whole(keys)
  for i = 1, #keys do
    if not raws[i] or not simple_take.add_lease(leases, of_queue, places[i], keys[i], raws[i]) then return nil end
  end
  leases.of_queue[#leases.of_queue + 1] = of_queue
  return true
end

local function no_leases(lease_ms, worker)
  return {of_queue = {}, following = math.huge, started_before = {}, has_no_history = {}, lease_ms = lease_ms, worker = worker,
    number = 0, answers = {}, written = {}, size = 0, patched = {}, holding = {}, token = tonumber(simple.call('GET', keys.token()) or 0),
    began = simple.pack('>I6I6', clock.now_ms, 0), instant = string.format('%.0f', clock.now_ms)}
end

-- Return leases of up to `most` jobs of the queues from ARGV[at] on, in their order; nil if not all of them are simple,
-- or if there are none and steps on dependencies are pending.
local function plain_leases(at, most, lease_ms)
  if most > simple.JOBS_MAX then return nil end
  local leases = no_leases(lease_ms, script.arguments[4])
  for i = at, #script.arguments do
    if leases.number >= most then break end
    for _, of_queue in ipairs(leases.of_queue) do
      if of_queue.queue == script.arguments[i] then return nil end
    end
    if not add_leases(leases, script.arguments[i], most - leases.number) then return nil end
  end
  if leases.number == 0 and simple.call('EXISTS', keys.steps()) == 1 then return nil end
  return leases
end

-- By default the engine stores a short sorted set as a list, and each operation scans it: with many changes that is a
-- quarter of the work. A long member makes it a skiplist, which it stays until it is empty.
local function z_add_many(key, list)
  if #list < MANY_ADDED or simple.call('OBJECT', 'ENCODING', key) == 'skiplist' then
    simple.call('ZADD', key, unpack(list))
  else
    simple.call('ZADD', key, 0, LONG_MEMBER, unpack(list))
    simple.call('ZREM', key, LONG_MEMBER)
  end
end

local function write_leased(leases)
  if leases.size > 0 then simple.call('MSET', unpack(leases.written)) end
  for key, header in pairs(leases.patched) do simple.call('SETRANGE', key, 0, header) end
  simple.call('INCRBY', keys.token(), leases.number)
  if leases.worker ~= record.NOBODY then z_add_many(keys.worker_jobs(leases.worker), leases.holding) end
end

-- Register a caller that found nothing, if it has a wakeup list.
local function register_from(at)
  if script.arguments[7] == '' then return end
  local for_ms = tonumber(script.arguments[8])
  for i = at, #script.arguments do wakeups.register(script.arguments[i], script.arguments[7], '', for_ms) end
  if script.arguments[9] == '2' then wakeups.offer_handoff(script.arguments[7], script.arguments[4], for_ms) end
end

local function write_leases(leases, queues_at)
  local following = leases.following < math.huge and leases.following or 0
  if leases.number == 0 then
    register_from(queues_at)
    return {clock.now_ms, following, 0, simple_finish.NOTHING, simple_finish.NOTHING, 0}
  end
  for _, of_queue in ipairs(leases.of_queue) do
    local queue, names = of_queue.queue, simple.keys_of(of_queue.queue)
    simple.call('ZREM', names.ready, unpack(of_queue.places))
    z_add_many(names.running, of_queue.running)
    for span, number in pairs(of_queue.spans) do counters.write_now(names, queue, span, number) end
    counters.write_now(names, queue, 'wait_ms', of_queue.waited_ms)
  end
  write_leased(leases)
  return {clock.now_ms, following, 0, leases.answers, leases.started_before, 0}
end

-- Return whether the take is simple: no filter, running at once, no others on the wakeup list, a scan from the start,
-- and a partition that is not stopped.
local function is_plain_take()
  return script.arguments[2] == '' and script.arguments[6] == '0' and script.arguments[9] ~= '1' and script.arguments[10] == '0'
    and not simple.call('HGET', keys.root, 'stopped')
end

function simple_take.take()
  if not is_plain_take() then return nil end
  local leases = plain_leases(11, tonumber(script.arguments[3]), tonumber(script.arguments[5]))
  return leases and write_leases(leases, 11)
end

function simple_take.finish_and_take()
  local finishes = tonumber(script.arguments[11])
  if script.arguments[12] ~= '0' or not is_plain_take() then return nil end
  -- Queues first: three commands show whether they have other lanes.
  local queues_at = 13 + finishes
  local leases = plain_leases(queues_at, tonumber(script.arguments[3]), tonumber(script.arguments[5]))
  if not leases then return nil end
  if finishes == 0 then return {{}, {}, write_leases(leases, queues_at)} end
  local ends = simple_finish.read_ends(13, finishes)
  if not ends or simple_finish.is_history_kept(ends, leases.has_no_history) then return nil end
  -- In this order the indexes of running jobs do not become empty in between.
  local taken = write_leases(leases, queues_at)
  simple_finish.write_ends(ends)
  return {finishes, {}, taken}
end

return simple_take
