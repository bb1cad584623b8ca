-- Store the outcomes of steps and extend the leases of their jobs. The first outcome of a step stays.
-- arguments: per step: id, token (0: the current holder's), name, kind, status, tries, ran_ms, lease_ms (0: the job's
--            or the queue's), value (with its codec; '': none)
-- returns:   per step 'ok' or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state, steps_full
local batch = require 'batch'
local steps = require 'durable.steps'
local lease = require 'leases.lease'
local reports = require 'leases.reports'
local script = require 'script'

local function store(id, token, name, kind, status, tries, ran_ms, lease_ms, value)
  local job, refused = reports.find_held(id, tonumber(token))
  if not job then return refused end
  refused = lease.renew_in_passing(job, tonumber(lease_ms))
  if refused then return refused end
  return steps.store(job, name, tonumber(kind), tonumber(status), tonumber(tries), tonumber(ran_ms), value)
end

return function(arguments)
  local answers = script.map(arguments, 2, 9, store)
  batch.flush()
  return answers
end
