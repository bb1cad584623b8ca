-- Assign unread signals to the waits of held jobs.
-- arguments: per wait: id, token, name (of the wait), signal
-- returns:   per wait {name, step as stored}, {} (there is no signal) or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state, steps_full
-- flags: allow-oom
local STEP_STATUS = require('constants').STEP_STATUS
local batch = require 'batch'
local mailbox = require 'durable.mailbox'
local state = require 'durable.state'
local keys = require 'keys'
local reports = require 'leases.reports'
local script = require 'script'

local function receive(id, token, name, signal)
  local job, refused = reports.find_held(id, tonumber(token))
  if not job then return refused end
  local known = state.load_step(job, name)
  if known and known.status ~= STEP_STATUS.waiting then
    return {name, redis.call('HGET', keys.durable(id), 's' .. name)}
  end
  local received
  refused, received = mailbox.receive(job, name, signal, known)
  return refused or received and {name, received} or {}
end

return function(arguments)
  local answers = script.map(arguments, 2, 4, receive)
  batch.flush()
  return answers
end
