-- Return all tokens and ended sessions, unless the caller has the current version.
-- arguments: known_version (the caller's; -1: none)
-- returns:   {version, now, {name, token (tokens.lua), ...}, {session, until (s), ...}}; without the lists if the
--            caller has this version
-- refusals:  none
-- flags: no-writes
local clock = require 'clock'
local keys = require 'keys'
local tokens = require 'tokens'

return function(_, known_version)
  local version = tokens.version()
  if version == tonumber(known_version) then return {version, clock.now_ms} end
  local ended_sessions = redis.call('ZRANGE', keys.ended_sessions(), 0, -1, 'WITHSCORES')
  return {version, clock.now_ms, redis.call('HGETALL', keys.tokens()), ended_sessions}
end
