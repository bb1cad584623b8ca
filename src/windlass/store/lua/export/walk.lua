-- Return a page of the names of all keys of one kind. A key that exists from the first page to the last is returned at
-- least once.
-- arguments: ARGV[1] clock offset, [2] kind: 'j' jobs, 'b' callbacks, [3] cursor ('0' to start), [4] about how many
-- returns:   {run id of the engine (a cursor is valid only within a run), next cursor ('0' at the end), {name, ...}}
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'

return function(arguments)
  local prefix = keys.named(arguments[2] .. ':')
  local pattern = string.gsub(prefix, '[%*%?%[%]%^\\]', '\\%0') .. '*'
  local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
  local page = redis.call('SCAN', arguments[3], 'MATCH', pattern, 'COUNT', arguments[4])
  local names = {}
  for i, key in ipairs(page[2]) do names[i] = string.sub(key, #prefix + 1) end
  return {run, page[1], names}
end
