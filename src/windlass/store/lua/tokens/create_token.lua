-- Store a new token under its name. A repeated call after a lost answer gets the same answer.
-- arguments: ARGV[1] clock offset, [2] name, [3] definition (opaque), [4] expires in ms (0: never), [5] most tokens
-- returns:   {created_at, expires_at (0: never)}
-- refusals:  token_exists, too_large (too many tokens)
local clock = require 'clock'
local keys = require 'keys'
local tokens = require 'tokens'

return function(arguments)
  local name, definition, expires_in = arguments[2], arguments[3], tonumber(arguments[4])
  local known = redis.call('HGET', keys.tokens(), name)
  if known then
    local created_at, expires_at, kept = tokens.unpack(known)
    return kept == definition and {created_at, expires_at} or 'token_exists'
  end
  if redis.call('HLEN', keys.tokens()) >= tonumber(arguments[5]) then return 'too_large' end
  local expires_at = expires_in > 0 and clock.now_ms + expires_in or 0
  redis.call('HSET', keys.tokens(), name, tokens.pack(clock.now_ms, expires_at, definition))
  tokens.renew_version()
  return {clock.now_ms, expires_at}
end
