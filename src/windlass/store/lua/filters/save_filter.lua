-- Store a filter under its name, or under another name. A repeated call after a lost answer gets the same answer.
-- arguments: name, definition (opaque), former (the name until now; '': none), most (filters)
-- returns:   1
-- refusals:  unknown_filter (former), id_conflict (another filter has the new name), too_large (too many filters)
local keys = require 'keys'

return function(_, name, definition, former, most)
  local filters = keys.filters()
  local known = redis.call('HGET', filters, name)
  if known == definition and (former == '' or redis.call('HEXISTS', filters, former) == 0) then return 1 end
  if former ~= '' and former ~= name then
    if redis.call('HEXISTS', filters, former) == 0 then return 'unknown_filter' end
    if known then return 'id_conflict' end
    redis.call('HDEL', filters, former)
  elseif not known and redis.call('HLEN', filters) >= tonumber(most) then
    return 'too_large'
  end
  redis.call('HSET', filters, name, definition)
  return 1
end
