-- Return a page of the keys of a limit whose keys may have their own caps, by name: their jobs and their caps.
-- arguments: limit_name, after (key to continue after; '' to start), most (keys per page)
-- returns:   {key to continue after ('': no more), {{key, queued, scheduled or waiting, dispatched or running, cap +
--            data kept with it ('': none)}, ...}}
-- refusals:  unknown_limit
-- flags: no-writes
local keys = require 'keys'
local caps = require 'limits.caps'

return function(_, limit_name, after, most)
  most = tonumber(most)
  local number = redis.call('HGET', keys.limit_names(), limit_name)
  if not number then return 'unknown_limit' end
  local from = after == '' and '-' or '(' .. number .. '=' .. after
  local found = redis.call('ZRANGEBYLEX', keys.capped_keys(number), from, '+', 'LIMIT', 0, most)
  local rows = {}
  for _, limit_key in ipairs(found) do
    if not caps.is_over(limit_key) then rows[#rows + 1] = caps.describe(limit_key) end
  end
  return {#found == most and caps.key_of(found[most]) or '', rows}
end
