-- uses: keys, clock, batch, record, new_record
-- Fast path for simple jobs (`plain` in the code). A simple job has a queue, a name, a payload and a policy, and
-- nothing that other keys must follow: no flag, lane, unique key, tag, parent, limit or expiry. While there are no
-- followers, and the takers that wait for its queue have no filter, a few known commands add it, lease it and end it.
-- The fast path (plain_*.lua) runs only these commands. It reads first; if anything is not simple, it has changed
-- nothing and leaves the call to the general path. Its effect must be that of the general path.
-- Tables are filled element by element, in order: `a[1], a[2] = x, y` sets the last element first, which makes the
-- table a hash.
local PLAIN_MOST = 1000 -- jobs of one call
local QUEUES_KEPT = 100
local PLACE = '>I6I6c16' -- member of a lane
local AFTER_HEADER = 17 + NEW_HEADER_BYTES -- in the enqueue argument of a job, which begins with its id
local STRINGS_AT = HEADER_BYTES + 9 -- in a record, behind its fingerprint
local REMEMBERED, REMEMBERED_BYTES = 1000, 512

-- Looking up `string.sub` costs as much as running it. `string` does not exist yet when the file is loaded.
local call, sub, pack, unpacked
at_begin[#at_begin + 1] = function()
  if not call then call, sub, pack, unpacked = redis.call, string.sub, struct.pack, struct.unpack end
end

-- Most records differ only in id, times and payload. The parsed form of their other parts is cached from call to call.
-- A nil result and a long text are not cached.
local function remembering(read)
  local known, number = {}, 0
  return function(text)
    local found = known[text]
    if found then return found end
    found = read(text)
    if found and #text <= REMEMBERED_BYTES then
      if number >= REMEMBERED then known, number = {}, 0 end
      known[text], number = found, number + 1
    end
    return found
  end
end

-- Each option of a format costs as much as a command argument, even if it skips only a byte.
local STRINGS = '>Bc0Bc0I2c0Bc0I2c0I4' -- policy, queue, name, lane, unique key, lengths of tags and links as one number
local kind_of = remembering(function(strings)
  local policy, queue, name, lane, unique, others = unpacked(STRINGS, strings)
  local lease_ms, timeout_ms, kept_ms, expires_at = 0, 0, 0, 0
  if policy ~= '' then lease_ms, timeout_ms, kept_ms, expires_at = unpacked('>I6I6I6I6', policy, 5) end
  local is_simple = lane == '' and others == 0 and expires_at == 0
  return {
    queue = queue, name = name, unique = unique, lease_ms = lease_ms, timeout_ms = timeout_ms, kept_ms = kept_ms,
    is_plain = is_simple and unique == '', is_named = is_simple and name ~= '', ends_plainly = unique == '' and others == 0,
  }
end)

-- Parse the header of a new record as its caller packs it. Returns nil if the job has a run time.
local start_of = remembering(function(header)
  local format, _, flags, priority, _, _, ready_at = unpacked(NEW_HEADER, header)
  if format ~= FORMAT or ready_at > 0 then return nil end
  return {
    flags = flags, priority = priority, score = string.format('%.0f', priority),
    beginning = pack('>BBI4i4', FORMAT, STATE.queued, flags, priority), strings_end = 16 + unpacked('>I2', header, HEADER_BYTES - 1),
  }
end)

-- Return the parsed header and strings of a job as its caller sends it, or nil.
local function start_and_kind(entry)
  local start = start_of(sub(entry, 17, 16 + HEADER_BYTES))
  if start then return start, kind_of(sub(entry, 16 + STRINGS_AT, start.strings_end)) end
end

local function is_set(found, field) return tonumber(found or DEFAULT[field]) > 0 end

-- Key names are cached from call to call. They depend only on the root, the queue and the time, and joining them costs
-- as much as a lookup.
local names_by_root, names_made = {}, 0

local function make_names(queue)
  return {
    q = queue_key('q', queue), ready = lane_key(queue, ''), running = queue_key('running', queue),
    heads = queue_key('heads', queue), room = queue_key('room', queue), waiters = queue_key('waiters', queue),
    followed = P .. 'followed', push_full = P .. 'push_full', limits_version = P .. 'limits_version', seq = P .. 'seq',
    token = P .. 'token', lease = P .. 'timers:lease', due = P .. 'timers:due', job = P .. 'j:', hand = P .. 'hand:',
    minute_ends_at = 0,
    number = P .. 'number', laned = queue_key('laned', queue), parked_at = queue_key('parked_at', queue),
    lane_names = queue_key('names', queue), unique = queue_key('u', queue) .. '\0',
  }
end

local function names_of(queue)
  local of_root = names_by_root[P]
  if not of_root then
    of_root = {}
    names_by_root[P] = of_root
  end
  local names = of_root[queue]
  if not names then
    if names_made >= QUEUES_KEPT then names_by_root, of_root, names_made = {}, {}, 0 end
    names, names_made = make_names(queue), names_made + 1
    names_by_root[P], of_root[queue] = of_root, names
  end
  return names
end
