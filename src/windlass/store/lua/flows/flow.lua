-- Return a flow with its steps. Read-only. A flow has a bounded number of steps.
-- arguments: id
-- returns:   {now, {field, value, ... of the flow}, {job id, node, end ('': none), header of the record ('': it is
--            gone), ... per step}} or a refusal
-- refusals:  unknown_flow
-- flags: no-writes
local clock = require 'clock'
local record = require 'jobs.record'
local keys = require 'keys'

local ID_BYTES = 16

-- Return the fields of the flow, and its nodes and ends by job id.
local function split_fields(found)
  local fields, nodes, ends = {}, {}, {}
  for i = 1, #found, 2 do
    local field, value = found[i], found[i + 1]
    local kind, id = string.sub(field, 1, 1), string.sub(field, 2)
    if #id == ID_BYTES and kind == 'n' then
      nodes[id] = value
    elseif #id == ID_BYTES and kind == 's' then
      ends[id] = value
    else
      fields[#fields + 1] = field
      fields[#fields + 1] = value
    end
  end
  return fields, nodes, ends
end

return function(_, id)
  local found = redis.call('HGETALL', keys.flow(id))
  if #found == 0 then return 'unknown_flow' end
  local fields, nodes, ends = split_fields(found)
  local steps = {}
  for job_id, node in pairs(nodes) do
    steps[#steps + 1] = job_id
    steps[#steps + 1] = node
    steps[#steps + 1] = ends[job_id] or ''
    steps[#steps + 1] = redis.call('GETRANGE', keys.job(job_id), 0, record.HEADER_BYTES - 1)
  end
  return {clock.now_ms, fields, steps}
end
