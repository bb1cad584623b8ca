-- uses: keys, clock, batch, record, new_record
-- What most jobs are: plain. A plain job has a queue, a name, a payload and a policy, and nothing that another key would
-- have to follow: no flag, lane, unique key, tag, parent, limit or expiry. While nobody follows what happens, and those
-- who wait at its queue want anything, it comes in, is taken and ends by a few commands that can be told beforehand. The
-- plain ways
-- (plain_*.lua) do just these; they read first, and where anything is not plain they have changed nothing and leave the
-- call to the general way. What they do must be what the general way would have done.
-- Lists are filled value by value, in order: of `a[1], a[2] = x, y` the last is set first, which costs a hash.
local PLAIN_MOST = 1000 -- jobs of one call
local NO_POLICY_MS = '\0\0\0\0\0\0'
local QUEUES_KEPT = 100
local PLACE = '>I6I6c16' -- in a lane
local AFTER_HEADER = 17 + NEW_HEADER_BYTES -- of what the caller of enqueue sends: the id comes first

-- A look-up of `string.sub` costs as much as its work; at the file's level there is no `string` yet.
local call, sub, pack, unpacked
at_begin[#at_begin + 1] = function()
  if not call then call, sub, pack, unpacked = redis.call, string.sub, struct.pack, struct.unpack end
end

-- From a policy, as packed: how long its result is kept, and when it expires. True where that is not at all.
local function keeps_no_result(policy) return policy == '' or sub(policy, 17, 22) == NO_POLICY_MS end
local function never_expires(policy) return policy == '' or sub(policy, 23, 28) == NO_POLICY_MS end

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
