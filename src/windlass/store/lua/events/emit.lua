-- Publish values of lease holders to the followers of events. Without followers nothing is stored.
-- arguments: per value: id, token (0: the current holder's), value (with its codec)
-- returns:   per value 'ok' or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
local EVENT = require('constants').EVENT
local events = require 'events'
local reports = require 'leases.reports'
local script = require 'script'

local function emit(id, token, value)
  local job, refused = reports.find_held(id, tonumber(token))
  if not job then return refused end
  events.announce(EVENT.emitted, job, value)
  return 'ok'
end

return function(arguments)
  return script.map(arguments, 2, 3, emit)
end
