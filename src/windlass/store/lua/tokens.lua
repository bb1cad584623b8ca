-- All tokens, unless the caller has them.
-- arguments: ARGV[1] clock offset, [2] version that the caller has (-1: none)
-- returns:   {version, now, {name, token (tokens.lua), ...}}; without the last when the caller's version is this one
-- refusals:  none
-- flags: no-writes
-- uses: keys, clock, tokens
local version = tokens_version()
if version == tonumber(ARGV[2]) then return {version, now_ms} end
return {version, now_ms, redis.call('HGETALL', tokens_key())}
