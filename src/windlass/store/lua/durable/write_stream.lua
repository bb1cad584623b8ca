-- Append values of lease holders to the streams of their jobs.
-- arguments: per call: id, token, sequence (values that this lease has written before), outside (values written outside
--            of steps before; '': inside a step), values (each preceded by its length)
-- returns:   per call the last position, or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state, stream_full
local batch = require 'batch'
local stream = require 'durable.stream'
local reports = require 'leases.reports'
local script = require 'script'

local function read_values(packed)
  local values, at, value = {}, 1, nil
  while at <= #packed do
    value, at = struct.unpack('>I4c0', packed, at)
    values[#values + 1] = value
  end
  return values
end

local function write(id, token, sequence, outside, packed)
  local job, refused = reports.find_held(id, tonumber(token))
  if not job then return refused end
  return stream.write(job, tonumber(sequence), outside, read_values(packed))
end

return function(arguments)
  local answers = script.map(arguments, 2, 5, write)
  batch.flush()
  return answers
end
