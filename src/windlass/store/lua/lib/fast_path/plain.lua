-- uses: keys, clock, batch, record, new_record
-- What most jobs are: plain. A plain job has a queue, a name, a payload and a policy, and nothing that another key would
-- have to follow: no flag, lane, unique key, tag, parent, limit or expiry. While nobody follows what happens, and those
-- who wait at its queue want anything, it comes in, is taken and ends by a few commands that can be told beforehand. The
-- plain ways
-- (plain_*.lua) do just these; they read first, and where anything is not plain they have changed nothing and leave the
-- call to the general way. What they do must be what the general way would have done.
-- Lists are filled value by value, in order: of `a[1], a[2] = x, y` the last is set first, which costs a hash.
local PLAIN_MOST = 1000 -- jobs of one call
local QUEUES_KEPT = 100
local PLACE = '>I6I6c16' -- in a lane
local AFTER_HEADER = 17 + NEW_HEADER_BYTES -- of what the caller of enqueue sends: the id comes first
local STRINGS_AT = HEADER_BYTES + 9 -- in a record, after its fingerprint
local REMEMBERED, REMEMBERED_BYTES = 1000, 512

-- A look-up of `string.sub` costs as much as its work; at the file's level there is no `string` yet.
local call, sub, pack, unpacked
at_begin[#at_begin + 1] = function()
  if not call then call, sub, pack, unpacked = redis.call, string.sub, struct.pack, struct.unpack end
end

-- Most records are alike but for id, times and payload: what one part of them says is read once, and known again from call
-- to call. What `read` answers with nil, or is long, is not kept.
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

-- Each option of a format costs as much as a command's argument, also one that skips a byte: so none skips many.
local STRINGS = '>Bc0Bc0I2c0Bc0I2c0I4' -- policy, queue, name, lane, unique key, the lengths of tags and links in one number
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

-- The header of a new record as its caller packs it, or nil: the job is to wait for its time.
local start_of = remembering(function(header)
  local format, _, flags, priority, _, _, ready_at = unpacked(NEW_HEADER, header)
  if format ~= FORMAT or ready_at > 0 then return nil end
  return {
    flags = flags, priority = priority, score = string.format('%.0f', priority),
    beginning = pack('>BBI4i4', FORMAT, STATE.queued, flags, priority), strings_end = 16 + unpacked('>I2', header, HEADER_BYTES - 1),
  }
end)

-- Of a job as its caller sends it: what its header says, and its strings; or nil.
local function start_and_kind(entry)
  local start = start_of(sub(entry, 17, 16 + HEADER_BYTES))
  if start then return start, kind_of(sub(entry, 16 + STRINGS_AT, start.strings_end)) end
end

local function is_set(found, field) return tonumber(found or DEFAULT[field]) > 0 end

-- Names of keys are kept from call to call: they follow from the root, the queue and the time alone, and to join them
-- costs as much as to look something up under them.
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
