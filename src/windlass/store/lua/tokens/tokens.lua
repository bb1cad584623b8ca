-- Return all tokens and ended sessions, unless the caller has the current version.
-- arguments: ARGV[1] clock offset, [2] the caller's version (-1: none)
-- returns:   {version, now, {name, token (tokens.lua), ...}, {session, until (s), ...}}; without the lists if the
--            caller has this version
-- refusals:  none
-- flags: no-writes
-- uses: keys, clock, tokens
local version = tokens_version()
if version == tonumber(ARGV[2]) then return {version, now_ms} end
return {version, now_ms, redis.call('HGETALL', tokens_key()), redis.call('ZRANGE', ended_sessions_key(), 0, -1, 'WITHSCORES')}
