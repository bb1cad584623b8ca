-- Somebody follows what happens: it is recorded from now on, for a minute; what was recorded since a place is read.
-- arguments: ARGV[1] clock offset, [2] epoch and [3] ordinal of the next event that is wanted ('': none yet), [4] most
-- returns:   {epoch, ordinal of the next event to come, {{id, {'e', event}}, ...}}
-- refusals:  none
-- flags: allow-oom
-- uses: keys, clock, events
local stream = P .. 'events'
local newest = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
local last_epoch, last_ordinal = '', -1
if newest then last_epoch, last_ordinal = string.match(newest[1], '^(%d+)-(%d+)$') end

local current = redis.call('GET', P .. 'followed')
if not current then
  -- Later than all that is there, also when the clock was set back.
  current = string.format('%.0f', math.max(now_ms, (tonumber(last_epoch) or 0) + 1))
end
redis.call('SET', P .. 'followed', current, 'PX', FOLLOWED_TTL_MS)
redis.call('PEXPIRE', stream, EVENTS_TTL_MS)
local entries = ARGV[2] ~= '' and redis.call('XRANGE', stream, ARGV[2] .. '-' .. ARGV[3], '+', 'COUNT', ARGV[4]) or {}
return {tonumber(current), current == last_epoch and last_ordinal + 1 or 0, entries}
