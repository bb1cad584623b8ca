-- Return a page of all keys of the partition, for the doctor.
-- arguments: cursor ('0' to start), count (about how many keys to scan)
-- returns:   {next cursor ('0' at the end), {key without the root, ...}}
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'

return function(_, cursor, count)
  local pattern = string.gsub(keys.prefix(), '[%[%]%*%?%^%-\\]', '\\%0') .. '*'
  local page = redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', count)
  local names = {}
  for i, key in ipairs(page[2]) do names[i] = string.sub(key, #keys.prefix() + 1) end
  return {page[1], names}
end
