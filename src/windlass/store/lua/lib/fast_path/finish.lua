-- Fast path of finish: simple jobs of any queue (simple.lua) that the caller holds.
local STATE = require('constants').STATE
local FLAG = require('constants').FLAG
local batch = require 'batch'
local clock = require 'clock'
local simple = require 'fast_path.simple'
local counters = require 'jobs.counters'
local end_header = require 'jobs.end_header'
local ended_ids = require 'jobs.ended_ids'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local keys = require 'keys'
local reports = require 'leases.reports'
local script = require 'script'

local fast_finish = {}

local READ_AT_ONCE = 16 -- records, with payloads: if one is small, the next are probably small too
local NOTHING = {}

local call, sub, unpack_bytes
script.once(function() call, sub, unpack_bytes = redis.call, string.sub, struct.unpack end)

-- Return ids, keys and tokens of `count` finishes from `first` on; nil if a job occurs twice.
local function read_items(arguments, first, count)
  local ids, job_keys, tokens, seen, prefix = {}, {}, {}, {}, keys.job('')
  for i = 1, count do
    local id, token = unpack_bytes('>c16I6', arguments[first + i - 1])
    if seen[id] then return nil end
    seen[id], ids[i], job_keys[i], tokens[i] = true, id, prefix .. id, token
  end
  return ids, job_keys, tokens
end

-- Return the beginnings of the records and the length of the first, which alone may be truncated; nil if one is
-- missing, or they are long.
local function read_beginnings(job_keys)
  local raws = {call('GETRANGE', job_keys[1], 0, record.PEEK_BYTES - 1)}
  local length = #raws[1] < record.PEEK_BYTES and #raws[1] or call('STRLEN', job_keys[1])
  for first = 2, #job_keys, READ_AT_ONCE do
    if (first == 2 and length or #raws[first - 1]) >= record.PEEK_BYTES then return nil end
    local found = call('MGET', unpack(job_keys, first, math.min(first + READ_AT_ONCE - 1, #job_keys)))
    for i = 1, #found do
      if not found[i] then return nil end
      raws[first + i - 1] = found[i]
    end
  end
  return raws[1] ~= '' and raws or nil, length
end

local function append(list, first, second)
  list[#list + 1] = first
  list[#list + 1] = second
end

-- Add the record of a job that is kept. Only its header changes.
local function add_kept(ends, key, queue, id, raw, length, flags, result, kept_ms)
  ends.kept = ends.kept or {ids = {}, written = {}, patched = {}, finished = {}, retention = {}}
  local kept = ends.kept
  kept.ids[id] = true
  if flags >= FLAG.awaited then flags = flags - FLAG.awaited end
  if result ~= '' then
    flags = flags + FLAG.has_outcome
    append(kept.written, keys.result(id), result)
  end
  local header = end_header.pack_finished(raw, flags)
  if length <= record.SMALL_BYTES then
    append(kept.written, key, header .. sub(raw, record.HEADER_BYTES + 1))
  else
    kept.patched[key] = header
  end
  kept.finished[queue] = kept.finished[queue] or {}
  append(kept.finished[queue], clock.now_ms, id)
  if kept_ms < record.FOREVER_MS then append(kept.retention, clock.now_ms + kept_ms, id) end
end

local run_bucket, held_job = counters.run_bucket, simple.held_job -- looked up once: they are called for every job

local function count_run(of_queue, id, length, ran_ms)
  local number, bucket = of_queue.number + 1, run_bucket(ran_ms)
  of_queue.number, of_queue.ids[number] = number, id
  of_queue.bytes, of_queue.ran_ms = of_queue.bytes + length, of_queue.ran_ms + ran_ms
  of_queue.buckets[bucket] = (of_queue.buckets[bucket] or 0) + 1
end

-- Add an end to `ends`. Returns false if the caller does not hold the job, or it is not simple.
local function add_end(ends, now_ms, key, id, raw, length, token, item)
  local strings, flags, started_at, worker = held_job(raw, token)
  if not strings then return false end
  local queue = strings.queue
  local of_queue, of_worker = ends.of_queue[queue], ends.of_worker[worker]
  if not of_queue then
    of_queue = {ids = {}, number = 0, bytes = 0, ran_ms = 0, buckets = {}}
    ends.of_queue[queue] = of_queue
  end
  if not of_worker then
    of_worker = {}
    ends.of_worker[worker] = of_worker
  end
  count_run(of_queue, id, length, started_at < now_ms and now_ms - started_at or 0)
  of_worker[#of_worker + 1] = id
  if flags >= FLAG.awaited then
    ends.awaited = ends.awaited or {}
    ends.awaited[#ends.awaited + 1] = id
  end
  if strings.kept_ms > 0 then
    local _, _, result = reports.read_finish(item)
    add_kept(ends, key, queue, id, raw, length, flags, result, strings.kept_ms)
  end
  return true
end

-- Return the ends of the jobs whose finishes are `count` arguments from `first` on; nil if one is not simple, or not
-- held by the caller. Changes nothing.
function fast_finish.read(arguments, first, count)
  if count > simple.JOBS_MAX then return nil end
  local ids, job_keys, tokens = read_items(arguments, first, count)
  if not ids then return nil end
  local raws, first_length = read_beginnings(job_keys)
  if not raws then return nil end
  local ends, now_ms = {ids = ids, job_keys = job_keys, of_queue = {}, of_worker = {}}, clock.now_ms
  for i = 1, count do
    local raw, item = raws[i], arguments[first + i - 1]
    local length = i == 1 and first_length or #raw
    if not add_end(ends, now_ms, job_keys[i], ids[i], raw, length, tokens[i], item) then return nil end
  end
  return ends
end

local function write_kept(kept)
  batch.call_in_parts('MSET', nil, kept.written)
  for key, header in pairs(kept.patched) do call('SETRANGE', key, 0, header) end
  for queue, list in pairs(kept.finished) do call('ZADD', keys.finished(queue), unpack(list)) end
  if #kept.retention > 0 then call('ZADD', keys.retention(), unpack(kept.retention)) end
end

-- Return ids and keys of the jobs that are not kept.
local function list_removed(ends)
  if not ends.kept then return ends.ids, ends.job_keys end
  local ids, job_keys, kept = {}, {}, ends.kept.ids
  for i, id in ipairs(ends.ids) do
    if not kept[id] then
      ids[#ids + 1] = id
      job_keys[#job_keys + 1] = ends.job_keys[i]
    end
  end
  return ids, job_keys
end

local function leave_running(queue, of_queue)
  local names = keys.kept_of(queue)
  call('ZREM', names.running, unpack(of_queue.ids))
  call('HINCRBY', names.queue, 'bytes', -of_queue.bytes)
  for bucket, number in pairs(of_queue.buckets) do counters.write_now(names, queue, bucket, number) end
  counters.write_now(names, queue, 'run_ms', of_queue.ran_ms)
end

function fast_finish.write(ends)
  for queue, of_queue in pairs(ends.of_queue) do leave_running(queue, of_queue) end
  for worker, ids in pairs(ends.of_worker) do
    if worker ~= record.NO_ID then call('ZREM', keys.worker_jobs(worker), unpack(ids)) end
  end
  local ids, job_keys = list_removed(ends)
  if #ids > 0 then
    call('DEL', unpack(job_keys))
    ended_ids.add(ids)
  end
  if ends.kept then write_kept(ends.kept) end
  -- After the writes: a caller that is woken finds the end.
  for _, id in ipairs(ends.awaited or NOTHING) do ending.wake_awaiting(id, STATE.finished) end
end

function fast_finish.finish(arguments)
  local ends = fast_finish.read(arguments, 2, #arguments - 1)
  if not ends or call('EXISTS', keys.followed(), keys.push_full()) > 0 then return nil end
  if simple.is_history_kept(ends.of_queue, NOTHING) then return nil end
  fast_finish.write(ends)
  local answers = {}
  for i = 1, #ends.ids do answers[i] = 'ok' end
  return answers
end

return fast_finish
