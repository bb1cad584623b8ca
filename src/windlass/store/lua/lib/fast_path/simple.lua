-- Fast path for simple jobs (`plain` in the code). A simple job has a queue, a name, a payload and a policy, and
-- nothing that other keys must follow: no flag, lane, unique key, tag, parent, limit or expiry. While there are no
-- followers, and the takers that wait for its queue have no filter, a few known commands add it, lease it and end it.
-- The fast path (plain_*.lua) runs only these commands. It reads first; if anything is not simple, it has changed
-- nothing and leaves the call to the general path. Its effect must be that of the general path.
-- Tables are filled element by element, in order: `a[1], a[2] = x, y` sets the last element first, which makes the
-- table a hash.
local STATE = require('constants').STATE
local DEFAULT = require('constants').DEFAULT
local new_record = require 'jobs.new_record'
local record = require 'jobs.record'
local keys = require 'keys'
local script = require 'script'

local simple = {}

simple.JOBS_MAX = 1000 -- jobs of one call
local QUEUES_KEPT = 100
simple.MEMBER = '>I6I6c16' -- member of a lane
simple.AFTER_HEADER = 17 + new_record.HEADER_BYTES -- in the enqueue argument of a job, which begins with its id
simple.STRINGS_AT = record.HEADER_BYTES + 9 -- in a record, behind its fingerprint
local REMEMBERED, REMEMBERED_BYTES = 1000, 512

-- Looking up `string.sub` costs as much as running it. `string` does not exist yet when the file is loaded.
script.on_begin(function()
  if not simple.call then simple.call, simple.sub, simple.pack, simple.unpacked = redis.call, string.sub, struct.pack, struct.unpack end
end)

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
simple.kind_of = remembering(function(strings)
  local policy, queue, name, lane, unique, others = simple.unpacked(STRINGS, strings)
  local lease_ms, timeout_ms, kept_ms, expires_at = 0, 0, 0, 0
  if policy ~= '' then lease_ms, timeout_ms, kept_ms, expires_at = simple.unpacked('>I6I6I6I6', policy, 5) end
  local is_simple = lane == '' and others == 0 and expires_at == 0
  return {
    queue = queue, name = name, unique = unique, lease_ms = lease_ms, timeout_ms = timeout_ms, kept_ms = kept_ms,
    is_plain = is_simple and unique == '', is_named = is_simple and name ~= '', ends_plainly = unique == '' and others == 0,
  }
end)

-- Parse the header of a new record as its caller packs it. Returns nil if the job has a run time.
local start_of = remembering(function(header)
  local format, _, flags, priority, _, _, ready_at = simple.unpacked(new_record.HEADER, header)
  if format ~= record.FORMAT or ready_at > 0 then return nil end
  return {
    flags = flags, priority = priority, score = string.format('%.0f', priority),
    beginning = simple.pack('>BBI4i4', record.FORMAT, STATE.queued, flags, priority), strings_end = 16 + simple.unpacked('>I2', header, record.HEADER_BYTES - 1),
  }
end)

-- Return the parsed header and strings of a job as its caller sends it, or nil.
function simple.parse(entry)
  local start = start_of(simple.sub(entry, 17, 16 + record.HEADER_BYTES))
  if start then return start, simple.kind_of(simple.sub(entry, 16 + simple.STRINGS_AT, start.strings_end)) end
end

function simple.is_set(found, field) return tonumber(found or DEFAULT[field]) > 0 end

-- Key names are cached from call to call. They depend only on the root, the queue and the time, and joining them costs
-- as much as a lookup.
local names_by_root, names_made = {}, 0

local function make_names(queue)
  return {
    q = keys.queue(queue), ready = keys.lane(queue, ''), running = keys.running(queue),
    heads = keys.heads(queue), room = keys.room(queue), waiters = keys.waiters(queue),
    followed = keys.followed(), push_full = keys.push_full(), limits_version = keys.limits_version(), seq = keys.sequence(),
    token = keys.token(), lease = keys.timer('lease'), due = keys.timer('due'), job = keys.job(''), hand = keys.handoff(''),
    minute_ends_at = 0,
    number = keys.number(), laned = keys.laned(queue), parked_at = keys.blocked_by(queue),
    lane_names = keys.lane_names(queue), unique = keys.unique(queue, ''),
  }
end

function simple.keys_of(queue)
  local of_root = names_by_root[keys.prefix()]
  if not of_root then
    of_root = {}
    names_by_root[keys.prefix()] = of_root
  end
  local names = of_root[queue]
  if not names then
    if names_made >= QUEUES_KEPT then names_by_root, of_root, names_made = {}, {}, 0 end
    names, names_made = make_names(queue), names_made + 1
    names_by_root[keys.prefix()], of_root[queue] = of_root, names
  end
  return names
end

return simple
