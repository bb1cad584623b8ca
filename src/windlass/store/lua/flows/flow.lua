-- Return a flow with its steps. Read-only. A flow has a bounded number of steps.
-- arguments: id
-- returns:   {now, {field, value, ... of the flow}, {job id, node, end ('': none), header of the record ('': it is
--            gone), ... per step}} or a refusal
-- refusals:  unknown_flow
-- flags: no-writes
local clock = require 'clock'
local flow_record = require 'flows.flow_record'
local record = require 'jobs.record'
local keys = require 'keys'

return function(_, id)
  local fields, nodes, ends = flow_record.read(id)
  if not fields then return 'unknown_flow' end
  local flat, steps = {}, {}
  for field, value in pairs(fields) do
    flat[#flat + 1] = field
    flat[#flat + 1] = value
  end
  for job_id, node in pairs(nodes) do
    steps[#steps + 1] = job_id
    steps[#steps + 1] = node
    steps[#steps + 1] = ends[job_id] or ''
    steps[#steps + 1] = redis.call('GETRANGE', keys.job(job_id), 0, record.HEADER_BYTES - 1)
  end
  return {clock.now_ms, flat, steps}
end
