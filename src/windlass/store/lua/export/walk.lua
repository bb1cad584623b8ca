-- Return a page of the names of all keys of one kind, or of all tombstones or flows. A name that exists from the first
-- page to the last is returned at least once.
-- arguments: kind ('j' jobs, 'b' callbacks, 't' tombstones, 'f' flows), cursor ('0' to start), count (about how many)
-- returns:   {run id of the engine (a cursor is valid only within a run), next cursor ('0' at the end), {name, ...}}
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'

local function walk_keys(kind, cursor, count)
  local prefix = keys.named(kind .. ':')
  local pattern = string.gsub(prefix, '[%*%?%[%]%^\\]', '\\%0') .. '*'
  local page = redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', count)
  local names = {}
  for i, key in ipairs(page[2]) do names[i] = string.sub(key, #prefix + 1) end
  return page[1], names
end

local function walk_entries(key, cursor, count)
  local page = redis.call('ZSCAN', key, cursor, 'COUNT', count)
  local ids = {}
  for i = 1, #page[2], 2 do ids[#ids + 1] = page[2][i] end
  return page[1], ids
end

return function(_, kind, cursor, count)
  local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
  local following, names
  local index = kind == 't' and keys.tombstones() or kind == 'f' and keys.flows()
  if index then
    following, names = walk_entries(index, cursor, count)
  else
    following, names = walk_keys(kind, cursor, count)
  end
  return {run, following, names}
end
