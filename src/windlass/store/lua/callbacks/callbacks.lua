-- Return a page of pending or given-up callbacks for display. Payloads are truncated, and long results are left out.
-- arguments: list ('owed': pending | 'given_up'), from, most
-- returns:   {{instant at which it is due or removed, {id, field, ...}}, ...}; fields as in pending_callbacks.lua
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'
local pending_callbacks = require 'pending_callbacks'
local script = require 'script'

local SHOWN_BYTES = 1024

return function(_, list, from, most)
  from, most = tonumber(from), tonumber(most)
  local page = redis.call('ZRANGE', keys.named(list), from, from + most - 1, 'WITHSCORES')
  return script.map(page, 1, 2, function(callback, at)
    return {tonumber(at), (pending_callbacks.read(callback, SHOWN_BYTES))}
  end)
end
