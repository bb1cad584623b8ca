-- Store a new token under its name. A repeated call after a lost answer gets the same answer.
-- arguments: ARGV[1] clock offset, [2] name, [3] definition (opaque), [4] expires in ms (0: never), [5] most tokens
-- returns:   {created_at, expires_at (0: never)}
-- refusals:  token_exists, too_large (too many tokens)
-- uses: keys, clock, tokens
local name, definition, expires_in = ARGV[2], ARGV[3], tonumber(ARGV[4])
local known = redis.call('HGET', tokens_key(), name)
if known then
  local created_at, expires_at, kept = unpack_token(known)
  return kept == definition and {created_at, expires_at} or 'token_exists'
end
if redis.call('HLEN', tokens_key()) >= tonumber(ARGV[5]) then return 'too_large' end
local expires_at = expires_in > 0 and now_ms + expires_in or 0
redis.call('HSET', tokens_key(), name, pack_token(now_ms, expires_at, definition))
renew_tokens_version()
return {now_ms, expires_at}
