-- uses: keys, clock
-- Event stream: one bounded stream, written only while there are followers. The id of an entry is <epoch>-<ordinal>. An
-- epoch is a period without a gap between followers. Within an epoch the events are numbered without gaps, so a reader
-- sees from the ids alone what it has missed.
local EVENT_LAYOUT = '>BI6I4I4c16Bc0I2c0' -- followed by a value with its codec, a note, or nothing
local EVENTS_KEPT = 10000
local EVENTS_BYTES = 16777216 -- of all entries, if they were as large as the newest one
-- Longer than FOLLOWED_TTL_MS, so that ordinals do not restart within an epoch.
local EVENTS_TTL_MS = 600000
local FOLLOWED_TTL_MS = 60000

local epoch -- nil: not read yet in this call; false: there are no followers
local is_stream_renewed
at_start[#at_start + 1] = function() epoch, is_stream_renewed = nil, false end

-- Set the epoch, for a call that reads it together with other keys.
local function know_followers(found) epoch = found end

local function announce(kind, r, value)
  if epoch == nil then epoch = redis.call('GET', P .. 'followed') end
  if not epoch then return end
  local event = struct.pack(EVENT_LAYOUT, kind, now_ms, r.attempt, r.progress or 0, r.id, #r.queue, r.queue, #r.name, r.name)
    .. value
  local most = math.min(EVENTS_KEPT, math.floor(EVENTS_BYTES / #event))
  redis.call('XADD', P .. 'events', 'MAXLEN', '~', most, epoch .. '-*', 'e', event)
  if not is_stream_renewed then
    redis.call('PEXPIRE', P .. 'events', EVENTS_TTL_MS)
    is_stream_renewed = true
  end
end

-- Announce that a job entered its state. `r.told` is the last announced state, or the state it was loaded with.
local function announce_state(r)
  r.told = r.state
  announce(r.state, r, '')
end
