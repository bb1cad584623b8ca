-- Store a new token under its name. A repeated call after a lost answer gets the same answer.
-- arguments: name, definition (opaque), expires_in_ms (0: never), most (tokens)
-- returns:   {created_at, expires_at (0: never)}
-- refusals:  token_exists, too_large (too many tokens)
local clock = require 'clock'
local keys = require 'keys'
local tokens = require 'tokens'

return function(_, name, definition, expires_in_ms, most)
  expires_in_ms = tonumber(expires_in_ms)
  local known = redis.call('HGET', keys.tokens(), name)
  if known then
    local created_at, expires_at, kept = tokens.unpack(known)
    return kept == definition and {created_at, expires_at} or 'token_exists'
  end
  if redis.call('HLEN', keys.tokens()) >= tonumber(most) then return 'too_large' end
  local expires_at = expires_in_ms > 0 and clock.now_ms + expires_in_ms or 0
  redis.call('HSET', keys.tokens(), name, tokens.pack(clock.now_ms, expires_at, definition))
  tokens.renew_version()
  return {clock.now_ms, expires_at}
end
