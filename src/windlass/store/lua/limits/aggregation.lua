-- Return one key of a limit whose keys may have their own caps.
-- arguments: ARGV[1] clock offset, [2] name of the limit, [3] key
-- returns:   {key, queued, scheduled or waiting, dispatched or running, cap + data kept with it ('': none)}
-- refusals:  unknown_limit
-- flags: no-writes
local keys = require 'keys'
local caps = require 'limits.caps'

return function(arguments)
  local number = redis.call('HGET', keys.limit_names(), arguments[2])
  if not number then return 'unknown_limit' end
  local limit_key = number .. '=' .. arguments[3]
  local row = caps.describe(limit_key)
  if caps.is_over(limit_key) then row[5] = '' end
  return row
end
