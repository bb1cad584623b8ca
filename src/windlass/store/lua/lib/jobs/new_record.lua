-- Record of a new job as its caller packs it: of its header only format, flags, priority and ready time are read. Half
-- the fields are half the cost, and jobs are enqueued by the thousand.
local batch = require 'batch'
local record = require 'jobs.record'
local keys = require 'keys'

local new_record = {}

local NEW_LAYOUT = '>Bc1I4i4c12I6c54c8Bc0Bc0I2c0Bc0I2c0I2c0I2c0'
new_record.HEADER = '>BBI4i4I6I6I6'
new_record.HEADER_BYTES = 28
new_record.FIRST_REVISION = 1 -- as packed by the caller
function new_record.decode(entry)
  local format, _, flags, priority, _, ready_at, _, fingerprint, policy, queue, name, lane, unique, tags, links =
    struct.unpack(NEW_LAYOUT, entry, 17)
  if format ~= record.FORMAT then error('record of an unknown format: ' .. format) end
  return {
    id = string.sub(entry, 1, 16), entry = entry, bytes = #entry - 16, state = 0, flags = flags, priority = priority,
    sequence = 0, created_at = 0, ready_at = ready_at, attempt = 0, fingerprint = fingerprint, policy = policy, queue = queue,
    name = name, lane = lane, unique = unique, tags = tags, links = links,
  }
end
function new_record.write(job)
  local header = struct.pack(new_record.HEADER, record.FORMAT, job.state, job.flags, job.priority, job.sequence, job.created_at, job.ready_at)
  batch.set(keys.job(job.id), header .. string.sub(job.entry, 17 + new_record.HEADER_BYTES))
end

return new_record
