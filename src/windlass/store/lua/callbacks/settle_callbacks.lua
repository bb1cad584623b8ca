-- Remove callbacks that were delivered.
-- arguments: ARGV[1] clock offset; then per callback: id, token
-- returns:   per callback 'ok' or a refusal
-- refusals:  unknown_callback (settled already, or never pending), stale_lease
-- flags: allow-oom
local keys = require 'keys'
local pending_callbacks = require 'pending_callbacks'

return function(arguments)
  local answers = {}
  for i = 2, #arguments, 2 do
    local refused = pending_callbacks.refusal_of(arguments[i], arguments[i + 1])
    if not refused then
      pending_callbacks.unlist(arguments[i], pending_callbacks.destination_of(arguments[i]))
      redis.call('DEL', keys.callback(arguments[i]))
    end
    table.insert(answers, refused or 'ok')
  end
  return answers
end
