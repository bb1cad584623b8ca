-- Remove callbacks that were delivered.
-- arguments: per callback: id, token
-- returns:   per callback 'ok' or a refusal
-- refusals:  unknown_callback (settled already, or never pending), stale_lease
-- flags: allow-oom
local keys = require 'keys'
local pending_callbacks = require 'pending_callbacks'
local script = require 'script'

local function settle(callback, token)
  local refused = pending_callbacks.refusal_of(callback, token)
  if refused then return refused end
  pending_callbacks.unlist(callback, pending_callbacks.destination_of(callback))
  redis.call('DEL', keys.callback(callback))
  return 'ok'
end

return function(arguments)
  return script.map(arguments, 2, 2, settle)
end
