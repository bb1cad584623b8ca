-- uses: keys, clock
-- What happens, told to those who follow: one bounded stream. Nothing is written while nobody follows.
-- An entry's id is <epoch>-<ordinal>. An epoch is a time through which somebody followed; within it the events are
-- numbered without a gap, so that a reader sees from the ids alone what it has missed.
local EVENT_LAYOUT = '>BI6I4I4c16Bc0I2c0' -- then a value with its codec, a note, or nothing
local EVENTS_KEPT = 10000
local EVENTS_BYTES = 16777216 -- a large value leaves room for fewer entries: all as large as it would fit in here
local EVENTS_TTL_MS = 600000 -- longer than a following lasts without being renewed: ordinals never start again in an epoch
local FOLLOWED_TTL_MS = 60000

local epoch -- nil: not asked yet in this call; false: nobody follows
local is_stream_renewed
at_start[#at_start + 1] = function() epoch, is_stream_renewed = nil, false end

-- For a call that reads the mark of followers together with others.
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

-- A job has entered its state; `told` is the one that was told last, or that it was loaded with.
local function announce_state(r)
  r.told = r.state
  announce(r.state, r, '')
end
