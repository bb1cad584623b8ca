-- Remove a token.
-- arguments: ARGV[1] clock offset, [2] name
-- returns:   1
-- refusals:  unknown_token
-- flags: allow-oom
local keys = require 'keys'
local tokens = require 'tokens'

return function(arguments)
  if redis.call('HDEL', keys.tokens(), arguments[2]) == 0 then return 'unknown_token' end
  tokens.renew_version()
  return 1
end
