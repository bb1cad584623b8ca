-- Raise the format of this partition: programs that do not know it refuse the namespace (core/namespace/format.py).
-- The format only grows.
-- arguments: format, version (of the program that raises it)
-- returns:   the format in force
-- refusals:  none
-- flags: allow-oom
local keys = require 'keys'

return function(_, format, version)
  local found = tonumber(redis.call('HGET', keys.root, 'layout') or 1)
  if found >= tonumber(format) then return found end
  redis.call('HSET', keys.root, 'layout', format, 'layout_by', version)
  return tonumber(format)
end
