-- Record events for another minute on behalf of a follower, and read the events recorded since a position.
-- arguments: epoch and ordinal (of the next wanted event; '': none yet), most
-- returns:   {epoch, ordinal of the next event, {{id, {'e', event}}, ...}}
-- refusals:  none
-- flags: allow-oom
local clock = require 'clock'
local events = require 'events'
local keys = require 'keys'

local function last_event(stream)
  local newest = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
  if not newest then return '', -1 end
  return string.match(newest[1], '^(%d+)-(%d+)$')
end

return function(_, epoch, ordinal, most)
  local stream = keys.events()
  local last_epoch, last_ordinal = last_event(stream)
  local current = redis.call('GET', keys.followed())
  if not current then
    -- A new epoch is later than every recorded event, even if the clock was set back.
    current = string.format('%.0f', math.max(clock.now_ms, (tonumber(last_epoch) or 0) + 1))
  end
  redis.call('SET', keys.followed(), current, 'PX', events.FOLLOWED_TTL_MS)
  redis.call('PEXPIRE', stream, events.STREAM_TTL_MS)
  local entries = {}
  if epoch ~= '' then entries = redis.call('XRANGE', stream, epoch .. '-' .. ordinal, '+', 'COUNT', most) end
  return {tonumber(current), current == last_epoch and last_ordinal + 1 or 0, entries}
end
