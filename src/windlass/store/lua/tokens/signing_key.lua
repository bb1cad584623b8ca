-- Return the key that signs links of this deployment. The first call stores it; later calls return the stored one.
-- arguments: new_key (random bytes)
-- returns:   the key
-- refusals:  none
-- flags: allow-oom
local keys = require 'keys'

return function(_, new_key)
  redis.call('HSETNX', keys.root, 'signing_key', new_key)
  return redis.call('HGET', keys.root, 'signing_key')
end
