-- Change the cap of a key, or the data kept with it, while jobs run. A key is known while it has jobs or a cap.
-- arguments: limit_name, key, cap ('': unchanged), data (kept with the cap), keeps_data ('1': stored data wins)
-- returns:   {key, queued, scheduled or waiting, dispatched or running, cap + data kept with it}
-- refusals:  unknown_limit, unknown_limit_key (it has neither jobs nor a cap)
-- flags: allow-oom
local commit = require 'commit'
local keys = require 'keys'
local caps = require 'limits.caps'

return function(_, limit_name, key, cap, data, keeps_data)
  local number = redis.call('HGET', keys.limit_names(), limit_name)
  if not number then return 'unknown_limit' end
  local limit_key = number .. '=' .. key
  if not caps.change(limit_key, tonumber(cap), data, keeps_data == '1') then return 'unknown_limit_key' end
  commit.run()
  return caps.describe(limit_key)
end
