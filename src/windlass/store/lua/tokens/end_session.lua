-- End browser sessions early: servers refuse their cookies.
-- arguments: session (a token's id, a dot and a session's id, or the token's id alone: all of its sessions so far),
--            until_s (until when it is remembered)
-- returns:   1
-- refusals:  none
-- flags: allow-oom
local clock = require 'clock'
local keys = require 'keys'
local tokens = require 'tokens'

local REMOVED_AT_ONCE = 100

return function(_, session, until_s)
  local ended, now_s = keys.ended_sessions(), math.floor(clock.now_ms / 1000)
  local over = redis.call('ZRANGEBYSCORE', ended, '-inf', string.format('(%d', now_s), 'LIMIT', 0, REMOVED_AT_ONCE)
  if #over > 0 then redis.call('ZREM', ended, unpack(over)) end
  redis.call('ZADD', ended, 'GT', tonumber(until_s), session)
  local last = redis.call('ZRANGE', ended, -1, -1, 'WITHSCORES')
  redis.call('EXPIRE', ended, math.max(1, tonumber(last[2]) - now_s + 1))
  tokens.renew_version()
  return 1
end
