-- Remove a token.
-- arguments: name
-- returns:   1
-- refusals:  unknown_token
-- flags: allow-oom
local keys = require 'keys'
local tokens = require 'tokens'

return function(_, name)
  if redis.call('HDEL', keys.tokens(), name) == 0 then return 'unknown_token' end
  tokens.renew_version()
  return 1
end
