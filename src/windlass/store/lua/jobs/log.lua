-- Append log lines of lease holders to their jobs. Beyond the limit the oldest lines are removed. When the engine's
-- memory is full the lines are refused, unlike reports that end a job.
-- arguments: per job: id, token (0: the current holder's), lines (each preceded by its length)
-- returns:   per job 'ok' or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
local EVENT = require('constants').EVENT
local batch = require 'batch'
local events = require 'events'
local job_log = require 'jobs.job_log'
local record = require 'jobs.record'
local reports = require 'leases.reports'
local script = require 'script'

local function log(id, token, lines)
  local job, refused = reports.find_held(id, tonumber(token))
  if not job then return refused end
  job_log.append(job, lines)
  if not record.has(job, 'has_logs') then
    record.mark(job, 'has_logs')
    record.save(job)
  end
  events.announce(EVENT.logged, job, '')
  return 'ok'
end

return function(arguments)
  local answers = script.map(arguments, 2, 3, log)
  batch.flush()
  return answers
end
