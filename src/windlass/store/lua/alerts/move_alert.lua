-- Move the state of an alert rule, and write the messages of this move as pending callbacks in the same step: a crash
-- loses neither, and of several servers one wins. The engine may be full: that is when an operator needs the message.
-- arguments: name, before (the state as the caller read it; '': none), after, past (the incident that ends; '': none),
--            most (past incidents that are kept); then per message: id, entry (id + record), destination
-- returns:   1
-- refusals:  unknown_alert, revision_conflict (another caller has moved it)
-- flags: allow-oom
local alerts = require 'alerts'
local keys = require 'keys'
local pending_callbacks = require 'pending_callbacks'
local script = require 'script'
local wakeups = require 'workers.wakeups'

local MESSAGES_AT = 7

return function(arguments, name, before, after, past, most)
  if redis.call('HEXISTS', keys.alerts(), name) == 0 then return 'unknown_alert' end
  if (redis.call('HGET', keys.alert_states(), name) or '') ~= before then return 'revision_conflict' end
  redis.call('HSET', keys.alert_states(), name, after)
  alerts.keep_past(past, tonumber(most))
  if #arguments >= MESSAGES_AT then
    script.map(arguments, MESSAGES_AT, 3, pending_callbacks.add_message)
    wakeups.wake(pending_callbacks.PLACE, nil)
  end
  return 1
end
