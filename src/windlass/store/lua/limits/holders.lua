-- Return a page of the jobs that run under a limit, or under one key of it, longest running first.
-- arguments: limit_key (number, number:key, or number=key for a limit with own caps), from (how many to skip), most
-- returns:   {how many there are, {id, since, ...}}
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'

return function(_, limit_key, from, most)
  from, most = tonumber(from), tonumber(most)
  local holders = keys.holders(limit_key)
  return {redis.call('ZCARD', holders), redis.call('ZRANGE', holders, from, from + most - 1, 'WITHSCORES')}
end
