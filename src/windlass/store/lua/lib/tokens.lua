-- uses: keys, clock
-- API tokens, sessions that were ended early, and the version by which servers notice a change.
local TOKEN_LAYOUT = '>I6I6' -- created_at, expires_at (0: never); then the definition as the callers keep it

local function tokens_key() return P .. 'tokens' end
local function ended_sessions_key() return P .. 'ended_sessions' end

local function pack_token(created_at, expires_at, definition)
  return struct.pack(TOKEN_LAYOUT, created_at, expires_at) .. definition
end

local function unpack_token(kept)
  local created_at, expires_at, at = struct.unpack(TOKEN_LAYOUT, kept)
  return created_at, expires_at, string.sub(kept, at)
end

local function tokens_version() return tonumber(redis.call('GET', P .. 'tokens_version') or 0) end

-- The version follows the clock: a deployment that was emptied, or lost its last writes in a failover, must not reach a
-- version again under which a server has other content.
local function renew_tokens_version()
  redis.call('SET', P .. 'tokens_version', string.format('%d', math.max(tokens_version() + 1, now_ms)))
end
