-- Return a page of the audit log, newest first.
-- arguments: before (id of the last entry of the previous page; '': from the newest), most
-- returns:   {{id, {'e', instant (6 bytes) + entry}}, ...}
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'

return function(_, before, most)
  local from = before == '' and '+' or '(' .. before
  return redis.call('XREVRANGE', keys.audit(), from, '-', 'COUNT', most)
end
