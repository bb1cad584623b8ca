-- uses: keys, batch
-- Stored record of a job: a fixed-width header that is patched in place, then strings, then the opaque payload.
-- store/records/record.py has the same layout; a test compares the two.
local HEADER = '>BBI4i4I6I6I6I6I6I6I6c16I4I4I4I2'
local HEADER_BYTES = 82
local LAYOUT = HEADER .. 'c8Bc0Bc0I2c0Bc0I2c0I2c0I2c0I2c0'
local POLICY = '>I4I6I6I6I6'
local LINKS = '>c16BI2c0' -- parent, policy for failed members, limits joined by \2
local FORMAT = 1
local CODEC_BITS = 3 -- of the flags; a record without other flags has nothing in the keys beside it
local PEEK_BYTES = 1024 -- enough for the strings of almost every record
local SMALL_BYTES = 1024 -- a change of a longer record writes only the header
local NOBODY = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
local FOREVER_MS = 281474976710655

local records -- records that this call has read or created, by id; false: removed in this call
at_start[#at_start + 1] = function() records = {} end

local function has(r, flag) return bit.band(r.flags, FLAG[flag]) ~= 0 end
local function mark(r, flag) r.flags = bit.bor(r.flags, FLAG[flag]) end
local function unmark(r, flag) r.flags = bit.band(r.flags, bit.bnot(FLAG[flag])) end

local function is_plain(r) return r.flags <= CODEC_BITS end

local function parse(id, raw)
  local format, state, flags, priority, sequence, created_at, ready_at, started_at, ended_at, token, deadline, worker,
    attempt, revision, progress, head_bytes, fingerprint, policy, queue, name, lane, unique, tags, links,
    extras = struct.unpack(LAYOUT, raw)
  if format ~= FORMAT then error('record of an unknown format: ' .. format) end
  return {
    id = id, raw = raw, bytes = #raw, state = state, flags = flags, priority = priority, sequence = sequence,
    created_at = created_at, ready_at = ready_at, started_at = started_at, ended_at = ended_at, token = token,
    deadline = deadline, worker = worker, attempt = attempt, revision = revision, progress = progress,
    head_bytes = head_bytes, fingerprint = fingerprint, policy = policy, queue = queue,
    name = name, lane = lane, unique = unique, tags = tags, links = links, extras = extras, told = state,
  }
end

local function decode(id, raw)
  records[id] = parse(id, raw)
  return records[id]
end

local NO_POLICY = {max_attempts = 0, lease_ms = 0, timeout_ms = 0, result_ttl_ms = 0, expires_at = 0}
local function policy_of(r)
  if r.policy == '' then return NO_POLICY end
  if not r.policy_read then
    local max_attempts, lease_ms, timeout_ms, result_ttl_ms, expires_at = struct.unpack(POLICY, r.policy)
    r.policy_read = {
      max_attempts = max_attempts, lease_ms = lease_ms, timeout_ms = timeout_ms, result_ttl_ms = result_ttl_ms,
      expires_at = expires_at,
    }
  end
  return r.policy_read
end

local NO_LINKS = {parent = NOBODY, on_failure = 0, limits = ''}
local function links_of(r)
  if r.links == '' then return NO_LINKS end
  if not r.links_read then
    local parent, on_failure, limits = struct.unpack(LINKS, r.links)
    r.links_read = {parent = parent, on_failure = on_failure, limits = limits}
  end
  return r.links_read
end

local function set_links(r, links)
  local is_bare = links.parent == NOBODY and links.on_failure == 0 and links.limits == ''
  r.links = is_bare and '' or struct.pack(LINKS, links.parent, links.on_failure, #links.limits, links.limits)
  r.links_read = nil
end

-- Return the record without (all of) its payload, or nil. The cost does not depend on the size of the payload.
local function load(id)
  if records[id] ~= nil then return records[id] or nil end
  local key = job_key(id)
  if value_pending[key] then return decode(id, value_pending[key]) end
  local raw = redis.call('GETRANGE', key, 0, PEEK_BYTES - 1)
  if raw == '' then return nil end
  local bytes = #raw
  if bytes == PEEK_BYTES then
    bytes = redis.call('STRLEN', key)
    local head_bytes = struct.unpack('>I2', raw, HEADER_BYTES - 1)
    if head_bytes > PEEK_BYTES then raw = redis.call('GETRANGE', key, 0, head_bytes - 1) end
  end
  local r = decode(id, raw)
  r.bytes = bytes
  return r
end

-- Return records with their payloads, in order (false: there is none), until they are enough. The rest is not read.
local READ_AT_FIRST, READ_AT_ONCE = 8, 64
local ENOUGH_BYTES = 8388608
local function read_whole(keys)
  local raws, bytes, first, size = {}, 0, 1, READ_AT_FIRST
  while first <= #keys and bytes < ENOUGH_BYTES do
    local last = math.min(first + size - 1, #keys)
    local found = redis.call('MGET', unpack(keys, first, last))
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

local function payload_of(r)
  if #r.raw < r.bytes then r.raw = redis.call('GET', job_key(r.id)) end
  return string.sub(r.raw, r.head_bytes + 1)
end

local function pack_header(r)
  return struct.pack(HEADER, FORMAT, r.state, r.flags, r.priority, r.sequence, r.created_at, r.ready_at, r.started_at,
    r.ended_at, r.token, r.deadline, r.worker, r.attempt, r.revision, r.progress, r.head_bytes)
end

local function patch_raw(r) r.raw = pack_header(r) .. string.sub(r.raw, HEADER_BYTES + 1) end

-- Write header, strings and payload from `raw`.
local function write(r)
  patch_raw(r)
  put(job_key(r.id), r.raw)
end

local function is_written_whole(r)
  return value_pending[job_key(r.id)] or (r.bytes <= SMALL_BYTES and #r.raw == r.bytes)
end

-- Write the changed header. Strings and payload are unchanged.
local function save(r)
  if is_written_whole(r) then return write(r) end
  patch_raw(r)
  redis.call('SETRANGE', job_key(r.id), 0, string.sub(r.raw, 1, HEADER_BYTES))
end

-- Rewrite the record after its strings or its payload have changed.
local function rewrite(r, payload)
  local strings = struct.pack('>c8Bc0Bc0I2c0Bc0I2c0I2c0I2c0I2c0', r.fingerprint, #r.policy, r.policy, #r.queue, r.queue,
    #r.name, r.name, #r.lane, r.lane, #r.unique, r.unique, #r.tags, r.tags, #r.links, r.links, #r.extras, r.extras)
  r.head_bytes = HEADER_BYTES + #strings
  r.raw = pack_header(r) .. strings .. payload
  local grown = #r.raw - r.bytes
  r.bytes = #r.raw
  put(job_key(r.id), r.raw)
  if r.state <= STATE.running then
    count(queue_key('q', r.queue), 'bytes', grown)
  elseif has(r, 'in_history') then
    count(queue_key('q', r.queue), 'history_bytes_now', grown)
  end
end

local function is_leased(r) return r.state == STATE.running or r.state == STATE.dispatched end
local function is_ended(r) return r.state >= STATE.finished end
