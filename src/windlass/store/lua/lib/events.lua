-- Event stream: one bounded stream, written only while there are followers. The id of an entry is <epoch>-<ordinal>. An
-- epoch is a period without a gap between followers. Within an epoch the events are numbered without gaps, so a reader
-- sees from the ids alone what it has missed.
local clock = require 'clock'
local keys = require 'keys'
local script = require 'script'

local events = {}

local EVENT_LAYOUT = '>BI6I4I4c16Bc0I2c0' -- followed by a value with its codec, a note, or nothing
local EVENTS_KEPT = 10000
local EVENTS_BYTES = 16777216 -- of all entries, if they were as large as the newest one
-- Longer than FOLLOWED_TTL_MS, so that ordinals do not restart within an epoch.
events.STREAM_TTL_MS = 600000
events.FOLLOWED_TTL_MS = 60000

local epoch -- nil: not read yet in this call; false: there are no followers
local is_stream_renewed
script.on_start(function() epoch, is_stream_renewed = nil, false end)

-- Set the epoch, for a call that reads it together with other keys.
function events.set_epoch(found) epoch = found end

function events.announce(kind, job, value)
  if epoch == nil then epoch = redis.call('GET', keys.followed()) end
  if not epoch then return end
  local head = struct.pack(EVENT_LAYOUT, kind, clock.now_ms, job.attempt, job.progress or 0, job.id,
    #job.queue, job.queue, #job.name, job.name)
  local event = head .. value
  local most = math.min(EVENTS_KEPT, math.floor(EVENTS_BYTES / #event))
  redis.call('XADD', keys.events(), 'MAXLEN', '~', most, epoch .. '-*', 'e', event)
  if not is_stream_renewed then
    redis.call('PEXPIRE', keys.events(), events.STREAM_TTL_MS)
    is_stream_renewed = true
  end
end

-- Announce that a job entered its state. `job.announced` is the last announced state, or the state it was
-- loaded with.
function events.announce_state(job)
  job.announced = job.state
  events.announce(job.state, job, '')
end

return events
