-- Return the pending and given-up callbacks of one job for display. Scans a bounded number of callbacks.
-- arguments: ARGV[1] clock offset, [2] job id, [3] about how many callbacks to scan in each list
-- returns:   {1 when all were scanned, {{instant at which it is due, {id, field, ...}}, ... of pending callbacks},
--            {{instant of its removal, {id, field, ...}}, ... of given-up callbacks}}; fields as in
--            pending_callbacks.lua
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'
local pending_callbacks = require 'pending_callbacks'

local SHOWN_BYTES = 1024

return function(arguments)
  local looked_at_most = tonumber(arguments[3])
  local pattern = string.gsub(arguments[2], '[%[%]%*%?%^%-\\]', '\\%0') .. '*'
  local is_all = 1

  local function of_job(index)
    local found, cursor, looked_at = {}, '0', 0
    repeat
      local page = redis.call('ZSCAN', keys.named(index), cursor, 'MATCH', pattern, 'COUNT', 1000)
      cursor, looked_at = page[1], looked_at + 1000
      for i = 1, #page[2], 2 do
        found[#found + 1] = {tonumber(page[2][i + 1]), (pending_callbacks.read(page[2][i], SHOWN_BYTES))}
      end
    until cursor == '0' or looked_at >= looked_at_most
    if cursor ~= '0' then is_all = 0 end
    return found
  end

  local owed = of_job('owed')
  return {is_all, owed, of_job('given_up')}
end
