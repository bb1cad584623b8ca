-- Record events for another minute on behalf of a follower, and read the events recorded since a position.
-- arguments: ARGV[1] clock offset, [2] epoch and [3] ordinal of the next wanted event ('': none yet), [4] most
-- returns:   {epoch, ordinal of the next event, {{id, {'e', event}}, ...}}
-- refusals:  none
-- flags: allow-oom
local clock = require 'clock'
local events = require 'events'
local keys = require 'keys'

return function(arguments)
  local stream = keys.events()
  local newest = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
  local last_epoch, last_ordinal = '', -1
  if newest then last_epoch, last_ordinal = string.match(newest[1], '^(%d+)-(%d+)$') end
  local current = redis.call('GET', keys.followed())
  if not current then
    -- A new epoch is later than every recorded event, even if the clock was set back.
    current = string.format('%.0f', math.max(clock.now_ms, (tonumber(last_epoch) or 0) + 1))
  end
  redis.call('SET', keys.followed(), current, 'PX', events.FOLLOWED_TTL_MS)
  redis.call('PEXPIRE', stream, events.STREAM_TTL_MS)
  local entries = arguments[2] ~= '' and redis.call('XRANGE', stream, arguments[2] .. '-' .. arguments[3], '+', 'COUNT', arguments[4]) or {}
  return {tonumber(current), current == last_epoch and last_ordinal + 1 or 0, entries}
end
