-- Return a page of the jobs that run under a limit, or under one key of it, longest running first.
-- arguments: ARGV[1] clock offset, [2] limit key: number, or number:key, [3] how many to skip, [4] most
-- returns:   {how many there are, {id, since, ...}}
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'

return function(arguments)
  local key, from = keys.holders(arguments[2]), tonumber(arguments[3])
  return {redis.call('ZCARD', key), redis.call('ZRANGE', key, from, from + tonumber(arguments[4]) - 1, 'WITHSCORES')}
end
