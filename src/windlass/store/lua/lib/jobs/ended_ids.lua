-- Ids of jobs that ended and were removed, for at least 10 minutes: a repeated enqueue must not run such a job again.
-- They are kept in two sets, one per 10 minutes, that expire.
local batch = require 'batch'
local clock = require 'clock'
local keys = require 'keys'
local script = require 'script'

local ended_ids = {}

local BUCKET_MS = 600000

-- Looking up `string.sub` costs as much as running it.
local call, sub
script.once(function() call, sub = redis.call, string.sub end)

local noted -- marks of ids that this call has removed
script.on_start(function() noted = {} end)

-- Return the current set and the one before it. Their names are cached while they stay the same.
local cached_root, cached_bucket, newer_key, older_key
local function bucket_keys()
  local bucket = math.floor(clock.now_ms / BUCKET_MS)
  if keys.root ~= cached_root or bucket ~= cached_bucket then
    cached_root, cached_bucket = keys.root, bucket
    newer_key, older_key = keys.ended_ids(bucket), keys.ended_ids(bucket - 1)
  end
  return newer_key, older_key
end

-- Return the part of an id that the sets contain.
local function mark_of(id) return sub(id, 9) end

local function marks_of(ids)
  local marks = {}
  for i = 1, #ids do marks[i] = mark_of(ids[i]) end
  return marks
end

local function write(marks)
  local key = bucket_keys()
  batch.call_in_parts('SADD', key, marks)
  call('PEXPIRE', key, 2 * BUCKET_MS)
end

-- Add ids now.
function ended_ids.add(ids) write(marks_of(ids)) end

-- Add an id with the next flush.
function ended_ids.note(id) noted[#noted + 1] = mark_of(id) end

batch.after_flush(function()
  if #noted == 0 then return end
  write(noted)
  noted = {}
end)

function ended_ids.has(id)
  local mark, newer, older = mark_of(id), bucket_keys()
  return call('SISMEMBER', newer, mark) == 1 or call('SISMEMBER', older, mark) == 1
end

-- Return per id whether it has ended.
function ended_ids.find(ids)
  local found, marks, newer, older = {}, marks_of(ids), bucket_keys()
  local in_newer, in_older = call('SMISMEMBER', newer, unpack(marks)), call('SMISMEMBER', older, unpack(marks))
  for i = 1, #ids do found[i] = in_newer[i] == 1 or in_older[i] == 1 end
  return found
end

local function is_any_in(key, marks)
  if call('EXISTS', key) == 0 then return false end
  local found = call('SMISMEMBER', key, unpack(marks))
  for i = 1, #found do
    if found[i] == 1 then return true end
  end
  return false
end

function ended_ids.has_any(ids)
  if #ids == 1 then return ended_ids.has(ids[1]) end
  local marks, newer, older = marks_of(ids), bucket_keys()
  return is_any_in(newer, marks) or is_any_in(older, marks)
end

return ended_ids
