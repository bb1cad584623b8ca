-- Checks of flows: their counts, their lists, and the jobs that belong to them.
local dependencies = require 'dependencies.dependencies'
local findings = require 'doctor.findings'
local flow_record = require 'flows.flow_record'
local flow_repair = require 'flows.flow_repair'
local flow_retention = require 'flows.flow_retention'
local record = require 'jobs.record'
local keys = require 'keys'

local checkup_flows = {}

local AFTER_MAX = 1000 -- jobs that a job may wait for

function checkup_flows.check_flow(id)
  if flow_repair.is_right(id) then return end
  findings.report_key('flow_wrong', 'flow:' .. id, function()
    flow_repair.recount(id)
    flow_retention.recount_steps()
  end)
end

-- Return the jobs that a job waits for, as far as its members still say.
local function awaited_by(job)
  local found = {}
  for _, id in ipairs(redis.call('ZRANGE', keys.members(job.id), 0, AFTER_MAX - 1)) do
    local member = record.load(id)
    if member and not dependencies.is_child_of(member, job.id) then found[#found + 1] = id end
  end
  return table.concat(found)
end

-- Check that the flow of a job knows the job.
function checkup_flows.check_job(job)
  if flow_record.is_known(job) then return end
  findings.report_job('flow_lost', job.id, function() flow_record.restore(job, awaited_by(job)) end)
end

-- Check an entry of a list of flows.
function checkup_flows.check_entry(index, id)
  if redis.call('EXISTS', keys.flow(id)) == 1 then return end
  findings.report_key('ghost', index, function()
    flow_retention.remove(id)
    flow_retention.recount_steps()
  end)
end

-- Check the number of steps of flows without records. Its exact value is known if these flows are few.
function checkup_flows.check_steps()
  local number, expected = tonumber(redis.call('GET', keys.flow_steps()) or 0), flow_retention.count_steps()
  if number == expected then return end
  findings.report_key('flow_wrong', 'flow_steps', flow_retention.recount_steps)
end

return checkup_flows
