-- Finish of simple jobs (plain.lua). Their lane no longer matters.
local STATE = require('constants').STATE
local FLAG = require('constants').FLAG
local batch = require 'batch'
local clock = require 'clock'
local simple = require 'fast_path.simple'
local counters = require 'jobs.counters'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local keys = require 'keys'
local reports = require 'leases.reports'
local script = require 'script'

local simple_finish = {}

-- As HEADER in record.lua, with format and state as one number.
local HELD_PLAIN = '>I2I4i4I6I6I6I6I6I6I6c16I4I4I4I2'
local MANY = 16 -- records read at once, with payloads: if one is small, the next are probably small too
local COMPLETE = 1000000 -- as progress
simple_finish.NOTHING = {}

-- Return the beginnings of the records and the length of the first, which alone may be truncated; nil if one is
-- missing, or they are long.
local function read_beginnings(record_keys)
  local raws = {simple.call('GETRANGE', record_keys[1], 0, record.PEEK_BYTES - 1)}
  local length = #raws[1] < record.PEEK_BYTES and #raws[1] or simple.call('STRLEN', record_keys[1])
  for first = 2, #record_keys, MANY do
    if (first == 2 and length or #raws[first - 1]) >= record.PEEK_BYTES then return nil end
    local found = simple.call('MGET', unpack(record_keys, first, math.min(first + MANY - 1, #record_keys)))
    for i = 1, #found do
      if not found[i] then return nil end
      raws[first + i - 1] = found[i]
    end
  end
  return raws[1] ~= '' and raws or nil, length
end

local RUNNING_FORM
script.on_begin(function() RUNNING_FORM = 256 * record.FORMAT + STATE.running end)

-- Return an empty summary of the ends in one queue.
local function new_ends() return {ids = {}, number = 0, bytes = 0, ran_ms = 0, spans = {}} end

local function note_end(of_queue, id, length, ran_ms)
  local number, span = of_queue.number + 1, counters.run_bucket(ran_ms)
  of_queue.number, of_queue.ids[number] = number, id
  of_queue.bytes, of_queue.ran_ms = of_queue.bytes + length, of_queue.ran_ms + ran_ms
  of_queue.spans[span] = (of_queue.spans[span] or 0) + 1
end

local function append(list, first, second)
  list[#list + 1] = first
  list[#list + 1] = second
end

-- Add the record of a job that is kept. Only its header changes.
local function keep_end(ends, key, queue, id, raw, length, result, kept_ms)
  ends.kept = ends.kept or {ids = {}, written = {}, patched = {}, finished = {}, retention = {}}
  local kept, header = ends.kept, {simple.unpacked(record.HEADER, raw)}
  kept.ids[id] = true
  header[2], header[9], header[11], header[15] = STATE.finished, clock.now_ms, 0, COMPLETE
  if result ~= '' then
    header[3] = header[3] + FLAG.has_outcome
    append(kept.written, keys.result(id), result)
  end
  local written = simple.pack(record.HEADER, unpack(header, 1, 16))
  if length <= record.SMALL_BYTES then
    append(kept.written, key, written .. simple.sub(raw, record.HEADER_BYTES + 1))
  else
    kept.patched[key] = written
  end
  kept.finished[queue] = kept.finished[queue] or {}
  append(kept.finished[queue], clock.now_ms, id)
  if kept_ms < record.FOREVER_MS then append(kept.retention, clock.now_ms + kept_ms, id) end
end

local function result_in(item)
  local _, _, result = reports.read_finish(item)
  return result
end

-- Add an end to `ends`. Returns false if the caller does not hold the job, or it is not simple.
local function add_end(ends, key, id, raw, length, token, item)
  local form, flags, _, _, _, _, started_at, _, own_token, _, worker, _, _, _, head_bytes = simple.unpacked(HELD_PLAIN, raw)
  if form ~= RUNNING_FORM or flags > record.CODEC_BITS or (token ~= 0 and token ~= own_token) or head_bytes > #raw then return false end
  local kind = simple.kind_of(simple.sub(raw, simple.STRINGS_AT, head_bytes))
  if not kind.ends_plainly then return false end
  local of_queue, of_worker = ends.of_queue[kind.queue] or new_ends(), ends.of_worker[worker] or {}
  ends.of_queue[kind.queue], ends.of_worker[worker] = of_queue, of_worker
  note_end(of_queue, id, length, started_at < clock.now_ms and clock.now_ms - started_at or 0)
  of_worker[#of_worker + 1] = id
  if kind.kept_ms > 0 then keep_end(ends, key, kind.queue, id, raw, length, result_in(item), kind.kept_ms) end
  return true
end

-- Return ids, keys and tokens of `count` finishes from ARGV[at] on; nil if a job occurs twice.
local function held_by_call(at, count)
  local ids, record_keys, tokens, seen, prefix = {}, {}, {}, {}, keys.prefix() .. 'j:'
  for i = 1, count do
    local id, token = simple.unpacked('>c16I6', script.arguments[at + i - 1])
    if seen[id] then return nil end
    seen[id], ids[i], record_keys[i], tokens[i] = true, id, prefix .. id, token
  end
  return ids, record_keys, tokens
end

-- Return the ends of these jobs; nil if one is not simple, or not held by the caller.
function simple_finish.read_ends(at, count)
  if count > simple.JOBS_MAX then return nil end
  local ids, record_keys, tokens = held_by_call(at, count)
  if not ids then return nil end
  local raws, first_length = read_beginnings(record_keys)
  if not raws then return nil end
  local ends = {ids = ids, record_keys = record_keys, of_queue = {}, of_worker = {}}
  for i = 1, count do
    local raw = raws[i]
    if not add_end(ends, record_keys[i], ids[i], raw, i == 1 and first_length or #raw, tokens[i], script.arguments[at + i - 1]) then return nil end
  end
  return ends
end

local function write_kept(kept)
  batch.call_in_parts('MSET', nil, kept.written)
  for key, header in pairs(kept.patched) do simple.call('SETRANGE', key, 0, header) end
  for queue, list in pairs(kept.finished) do simple.call('ZADD', keys.finished(queue), unpack(list)) end
  if #kept.retention > 0 then simple.call('ZADD', keys.retention(), unpack(kept.retention)) end
end

local function those_not_kept(ends)
  local ids, record_keys, kept = {}, {}, ends.kept.ids
  for i, id in ipairs(ends.ids) do
    if not kept[id] then
      ids[#ids + 1] = id
      record_keys[#record_keys + 1] = ends.record_keys[i]
    end
  end
  return ids, record_keys
end

-- Delete the jobs that are not kept, and mark their ids as ended.
local function write_gone(ends)
  local ids, gone = ends.ids, ends.record_keys
  if ends.kept then ids, gone = those_not_kept(ends) end
  if #ids == 0 then return end
  local marks = {}
  for i = 1, #ids do marks[i] = ending.ended_mark(ids[i]) end
  simple.call('DEL', unpack(gone))
  ending.mark_ended(marks)
end

function simple_finish.write_ends(ends)
  for queue, of_queue in pairs(ends.of_queue) do
    local names = simple.keys_of(queue)
    simple.call('ZREM', names.running, unpack(of_queue.ids))
    simple.call('HINCRBY', names.q, 'bytes', -of_queue.bytes)
    for span, number in pairs(of_queue.spans) do counters.write_now(names, queue, span, number) end
    counters.write_now(names, queue, 'run_ms', of_queue.ran_ms)
  end
  for worker, ids in pairs(ends.of_worker) do
    if worker ~= record.NOBODY then simple.call('ZREM', keys.worker_jobs(worker), unpack(ids)) end
  end
  write_gone(ends)
  if ends.kept then write_kept(ends.kept) end
end

-- Return whether one of the queues keeps a history. Skips queues that are known to keep none.
function simple_finish.is_history_kept(ends, known)
  for queue in pairs(ends.of_queue) do
    if not known[queue] and simple.is_set(simple.call('HGET', simple.keys_of(queue).q, 'history_length'), 'history_length') then return true end
  end
  return false
end

function simple_finish.finish()
  local ends = simple_finish.read_ends(2, #script.arguments - 1)
  if not ends or simple.call('EXISTS', keys.followed(), keys.push_full()) > 0 or simple_finish.is_history_kept(ends, simple_finish.NOTHING) then
    return nil
  end
  simple_finish.write_ends(ends)
  local answers = {}
  for i = 1, #ends.ids do answers[i] = 'ok' end
  return answers
end

return simple_finish
