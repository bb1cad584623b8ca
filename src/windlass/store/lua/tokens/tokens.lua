-- Return all tokens and ended sessions, unless the caller has the current version.
-- arguments: ARGV[1] clock offset, [2] the caller's version (-1: none)
-- returns:   {version, now, {name, token (tokens.lua), ...}, {session, until (s), ...}}; without the lists if the
--            caller has this version
-- refusals:  none
-- flags: no-writes
local clock = require 'clock'
local keys = require 'keys'
local tokens = require 'tokens'

return function(arguments)
  local version = tokens.version()
  if version == tonumber(arguments[2]) then return {version, clock.now_ms} end
  return {version, clock.now_ms, redis.call('HGETALL', keys.tokens()), redis.call('ZRANGE', keys.ended_sessions(), 0, -1, 'WITHSCORES')}
end
