-- Return one key of a limit whose keys may have their own caps.
-- arguments: limit_name, key
-- returns:   {key, queued, scheduled or waiting, dispatched or running, cap + data kept with it ('': none)}
-- refusals:  unknown_limit
-- flags: no-writes
local keys = require 'keys'
local caps = require 'limits.caps'

return function(_, limit_name, key)
  local number = redis.call('HGET', keys.limit_names(), limit_name)
  if not number then return 'unknown_limit' end
  local limit_key = number .. '=' .. key
  local row = caps.describe(limit_key)
  if caps.is_over(limit_key) then row[5] = '' end
  return row
end
