-- API tokens, sessions that were ended early, and the version by which servers notice a change.
local clock = require 'clock'
local keys = require 'keys'

local tokens = {}

local TOKEN_LAYOUT = '>I6I6' -- created_at, expires_at (0: never); then the definition as the callers keep it

function tokens.pack(created_at, expires_at, definition)
  return struct.pack(TOKEN_LAYOUT, created_at, expires_at) .. definition
end

function tokens.unpack(kept)
  local created_at, expires_at, at = struct.unpack(TOKEN_LAYOUT, kept)
  return created_at, expires_at, string.sub(kept, at)
end

function tokens.version() return tonumber(redis.call('GET', keys.tokens_version()) or 0) end

-- The version follows the clock: a deployment that was emptied, or lost its last writes in a failover, must not reach a
-- version again under which a server has other content.
function tokens.renew_version()
  redis.call('SET', keys.tokens_version(), string.format('%d', math.max(tokens.version() + 1, clock.now_ms)))
end

return tokens
