-- Stored record of a job: a fixed-width header that is patched in place, then strings, then the opaque payload.
-- store/records/record.py has the same layout; a test compares the two.
local STATE = require('constants').STATE
local FLAG = require('constants').FLAG
local batch = require 'batch'
local keys = require 'keys'
local script = require 'script'

local record = {}

record.HEADER = '>BBI4i4I6I6I6I6I6I6I6c16I4I4I4I2'
record.HEADER_BYTES = 82
local STRINGS = 'c8Bc0Bc0I2c0Bc0I2c0I2c0I2c0I2c0'
local LAYOUT = record.HEADER .. STRINGS
record.POLICY = '>I4I6I6I6I6'
record.POLICY_BYTES = 28 -- the time of a tombstone may follow (tombstones.lua)
-- Parent, policy for failed members, limits joined by \2. The flow of the job may follow: its id, B + its name, the
-- name of the job in it.
local LINKS = '>c16BI2c0'
local LINKS_BYTES = 19 -- without the limits and the flow
record.FORMAT = 1
record.CODEC_BITS = 3 -- of the flags; a record without other flags has nothing in the keys beside it
-- Flags of a record that the fast path leases and ends: a codec, and whether callers wait for its end.
record.SIMPLE_FLAGS = {}
for codec = 0, record.CODEC_BITS do
  record.SIMPLE_FLAGS[codec], record.SIMPLE_FLAGS[codec + FLAG.awaited] = true, true
end
record.PEEK_BYTES = 1024 -- enough for the strings of almost every record
record.SMALL_BYTES = 1024 -- a change of a longer record writes only the header
record.NO_ID = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
record.FOREVER_MS = 281474976710655

-- records that this call has read or created, by id; false: removed in this call
script.on_start(function() record.loaded = {} end)

-- Looking up a function of the engine's libraries costs as much as running it.
local call, band, bor, bnot, pack, unpack_bytes, sub
script.once(function()
  call, band, bor, bnot = redis.call, bit.band, bit.bor, bit.bnot
  pack, unpack_bytes, sub = struct.pack, struct.unpack, string.sub
end)

-- Operations on bits return a negative number if the highest bit is set. Flags are stored and compared without a sign.
local UNSIGNED = 4294967296

function record.has(job, flag) return band(job.flags, FLAG[flag]) ~= 0 end
function record.mark(job, flag) job.flags = bor(job.flags, FLAG[flag]) % UNSIGNED end
function record.unmark(job, flag) job.flags = band(job.flags, bnot(FLAG[flag])) % UNSIGNED end

-- Replace these bits of a job's flags.
function record.set_bits(job, bits, value) job.flags = bor(band(job.flags, bnot(bits)), value) % UNSIGNED end

-- Return an instant, or another number of six bytes, as records and lanes contain it.
function record.pack_number(number) return pack('>I6', number) end

function record.is_unflagged(job) return job.flags <= record.CODEC_BITS end

function record.parse(id, raw)
  local format, state, flags, priority, sequence, created_at, ready_at, started_at, ended_at, token, deadline, worker,
    attempt, revision, progress, head_bytes, fingerprint, policy, queue, name, lane, unique, tags, links,
    extras = unpack_bytes(LAYOUT, raw)
  if format ~= record.FORMAT then error('record of an unknown format: ' .. format) end
  return {
    id = id, raw = raw, bytes = #raw, state = state, flags = flags, priority = priority, sequence = sequence,
    created_at = created_at, ready_at = ready_at, started_at = started_at, ended_at = ended_at, token = token,
    deadline = deadline, worker = worker, attempt = attempt, revision = revision, progress = progress,
    head_bytes = head_bytes, fingerprint = fingerprint, policy = policy, queue = queue,
    name = name, lane = lane, unique = unique, tags = tags, links = links, extras = extras, announced = state,
  }
end

-- Return the fields of a header alone.
function record.parse_header(raw)
  local _, state, flags, priority, sequence, created_at, ready_at, started_at, ended_at, token, deadline, worker,
    attempt, revision, progress, head_bytes = unpack_bytes(record.HEADER, raw)
  return {
    state = state, flags = flags, priority = priority, sequence = sequence, created_at = created_at,
    ready_at = ready_at, started_at = started_at, ended_at = ended_at, token = token, deadline = deadline,
    worker = worker, attempt = attempt, revision = revision, progress = progress, head_bytes = head_bytes,
  }
end

function record.decode(id, raw)
  record.loaded[id] = record.parse(id, raw)
  return record.loaded[id]
end

local NO_POLICY = {max_attempts = 0, lease_ms = 0, timeout_ms = 0, result_ttl_ms = 0, expires_at = 0}
function record.policy_of(job)
  if job.policy == '' then return NO_POLICY end
  if not job.policy_read then
    local max_attempts, lease_ms, timeout_ms, result_ttl_ms, expires_at = unpack_bytes(record.POLICY, job.policy)
    job.policy_read = {
      max_attempts = max_attempts, lease_ms = lease_ms, timeout_ms = timeout_ms, result_ttl_ms = result_ttl_ms,
      expires_at = expires_at,
    }
  end
  return job.policy_read
end

local NO_LINKS = {parent = record.NO_ID, on_failure = 0, limits = '', flow = ''}
function record.links_of(job)
  if job.links == '' then return NO_LINKS end
  if not job.links_read then
    local parent, on_failure, limits = unpack_bytes(LINKS, job.links)
    local flow = sub(job.links, LINKS_BYTES + #limits + 1)
    job.links_read = {parent = parent, on_failure = on_failure, limits = limits, flow = flow}
  end
  return job.links_read
end

function record.set_links(job, links)
  local is_bare = links.parent == record.NO_ID and links.on_failure == 0 and links.limits == '' and links.flow == ''
  job.links = is_bare and ''
    or pack(LINKS, links.parent, links.on_failure, #links.limits, links.limits) .. links.flow
  job.links_read = nil
end

-- Return the record without (all of) its payload, or nil. The cost does not depend on the size of the payload.
function record.load(id)
  if record.loaded[id] ~= nil then return record.loaded[id] or nil end
  local key = keys.job(id)
  if batch.values[key] then return record.decode(id, batch.values[key]) end
  local raw = call('GETRANGE', key, 0, record.PEEK_BYTES - 1)
  if raw == '' then return nil end
  local bytes = #raw
  if bytes == record.PEEK_BYTES then
    bytes = call('STRLEN', key)
    local head_bytes = unpack_bytes('>I2', raw, record.HEADER_BYTES - 1)
    if head_bytes > record.PEEK_BYTES then raw = call('GETRANGE', key, 0, head_bytes - 1) end
  end
  local job = record.decode(id, raw)
  job.bytes = bytes
  return job
end

-- Return records with their payloads, in order (false: there is none), until they are enough. The rest is not read.
local READ_AT_FIRST, READ_AT_ONCE = 8, 64
local ENOUGH_BYTES = 8388608
function record.read_whole(job_keys)
  local raws, bytes, first, size = {}, 0, 1, READ_AT_FIRST
  while first <= #job_keys and bytes < ENOUGH_BYTES do
    local last = math.min(first + size - 1, #job_keys)
    local found = call('MGET', unpack(job_keys, first, last))
    for i = 1, #found do
      raws[first + i - 1] = found[i]
      bytes = bytes + (found[i] and #found[i] or 0)
    end
    -- As many as fit if they have the size of those so far.
    size = math.max(1, math.min(READ_AT_ONCE, math.floor((ENOUGH_BYTES - bytes) / (bytes / last + 1))))
    first = last + 1
  end
  return raws
end

function record.payload_of(job)
  if #job.raw < job.bytes then job.raw = call('GET', keys.job(job.id)) end
  return sub(job.raw, job.head_bytes + 1)
end

function record.pack_header(job)
  return pack(record.HEADER, record.FORMAT, job.state, job.flags, job.priority, job.sequence, job.created_at,
    job.ready_at, job.started_at, job.ended_at, job.token, job.deadline, job.worker, job.attempt, job.revision,
    job.progress, job.head_bytes)
end

local function patch_raw(job) job.raw = record.pack_header(job) .. sub(job.raw, record.HEADER_BYTES + 1) end

-- Write header, strings and payload from `raw`.
function record.write(job)
  patch_raw(job)
  batch.set(keys.job(job.id), job.raw)
end

function record.is_written_whole(job)
  return batch.values[keys.job(job.id)] or (job.bytes <= record.SMALL_BYTES and #job.raw == job.bytes)
end

-- Write the changed header. Strings and payload are unchanged.
function record.save(job)
  if record.is_written_whole(job) then return record.write(job) end
  patch_raw(job)
  call('SETRANGE', keys.job(job.id), 0, sub(job.raw, 1, record.HEADER_BYTES))
end

-- Rewrite the record after its strings or its payload have changed.
function record.rewrite(job, payload)
  local strings = pack('>' .. STRINGS, job.fingerprint, #job.policy, job.policy, #job.queue, job.queue, #job.name,
    job.name, #job.lane, job.lane, #job.unique, job.unique, #job.tags, job.tags, #job.links, job.links, #job.extras,
    job.extras)
  job.head_bytes = record.HEADER_BYTES + #strings
  job.raw = record.pack_header(job) .. strings .. payload
  local grown = #job.raw - job.bytes
  job.bytes = #job.raw
  batch.set(keys.job(job.id), job.raw)
  if not record.is_ended(job) then
    batch.increment(keys.queue(job.queue), 'bytes', grown)
  elseif record.has(job, 'in_history') then
    batch.increment(keys.queue(job.queue), 'history_bytes_now', grown)
  end
end

function record.is_leased(job) return job.state == STATE.running or job.state == STATE.dispatched end
function record.is_pending(job) return job.state <= STATE.waiting end
function record.is_ended(job) return job.state >= STATE.finished and job.state ~= STATE.suspended end

-- Return the bytes of a job in the sums of its queue: its record, and its steps, signals and stream.
function record.total_bytes(job)
  if not record.has(job, 'durable') then return job.bytes end
  local found = call('HMGET', keys.durable(job.id), 'b', 'xb')
  return job.bytes + tonumber(found[1] or 0) + tonumber(found[2] or 0)
end

return record
