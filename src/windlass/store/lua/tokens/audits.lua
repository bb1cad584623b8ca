-- Return a page of the audit log, newest first.
-- arguments: ARGV[1] clock offset, [2] id of the last entry of the previous page ('': from the newest), [3] most
-- returns:   {{id, {'e', instant (6 bytes) + entry}}, ...}
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'

return function(arguments)
  local from = arguments[2] == '' and '+' or '(' .. arguments[2]
  return redis.call('XREVRANGE', keys.audit(), from, '-', 'COUNT', arguments[3])
end
