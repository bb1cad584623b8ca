-- Return a page of the names of all keys of one kind. A key that exists from the first page to the last is returned at
-- least once.
-- arguments: kind ('j' jobs, 'b' callbacks), cursor ('0' to start), count (about how many)
-- returns:   {run id of the engine (a cursor is valid only within a run), next cursor ('0' at the end), {name, ...}}
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'

return function(_, kind, cursor, count)
  local prefix = keys.named(kind .. ':')
  local pattern = string.gsub(prefix, '[%*%?%[%]%^\\]', '\\%0') .. '*'
  local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
  local page = redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', count)
  local names = {}
  for i, key in ipairs(page[2]) do names[i] = string.sub(key, #prefix + 1) end
  return {run, page[1], names}
end
