-- Return the pending and given-up callbacks of one job for display. Scans a bounded number of callbacks.
-- arguments: id (of the job), count (about how many callbacks to scan in each list)
-- returns:   {1 when all were scanned, {{instant at which it is due, {id, field, ...}}, ... of pending callbacks},
--            {{instant of its removal, {id, field, ...}}, ... of given-up callbacks}}; fields as in
--            pending_callbacks.lua
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'
local pending_callbacks = require 'pending_callbacks'

local SHOWN_BYTES = 1024
local SCANNED_AT_ONCE = 1000

-- Return the callbacks of a list that match, and whether the whole list was scanned.
local function find_callbacks(list, pattern, most)
  local found, cursor, scanned = {}, '0', 0
  repeat
    local page = redis.call('ZSCAN', list, cursor, 'MATCH', pattern, 'COUNT', SCANNED_AT_ONCE)
    cursor, scanned = page[1], scanned + SCANNED_AT_ONCE
    for i = 1, #page[2], 2 do
      found[#found + 1] = {tonumber(page[2][i + 1]), (pending_callbacks.read(page[2][i], SHOWN_BYTES))}
    end
  until cursor == '0' or scanned >= most
  return found, cursor == '0'
end

return function(_, id, count)
  local pattern, most = string.gsub(id, '[%[%]%*%?%^%-\\]', '\\%0') .. '*', tonumber(count)
  local pending, has_all_pending = find_callbacks(keys.pending_callbacks(), pattern, most)
  local given_up, has_all_given_up = find_callbacks(keys.given_up(), pattern, most)
  return {has_all_pending and has_all_given_up and 1 or 0, pending, given_up}
end
