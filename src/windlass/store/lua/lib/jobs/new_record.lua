-- Record of a new job as its caller packs it: of its header only format, flags, priority and ready time are read. Half
-- the fields are half the cost, and jobs are enqueued by the thousand.
local batch = require 'batch'
local record = require 'jobs.record'
local keys = require 'keys'
local script = require 'script'

local new_record = {}

local LAYOUT = '>Bc1I4i4c12I6c54c8Bc0Bc0I2c0Bc0I2c0I2c0I2c0'
local START = '>BBI4i4' -- format, state, flags, priority
local INSTANTS = '>I6I6I6' -- sequence, created_at, ready_at
new_record.HEADER = START .. 'I6I6I6'
new_record.FIRST_REVISION = 1 -- as packed by the caller
local AFTER_HEADER = 17 + 28 -- in an entry: a job as its caller sends it, which begins with its id

local pack, sub
script.once(function() pack, sub = struct.pack, string.sub end)

function new_record.decode(entry)
  local format, _, flags, priority, _, ready_at, _, fingerprint, policy, queue, name, lane, unique, tags, links =
    struct.unpack(LAYOUT, entry, 17)
  if format ~= record.FORMAT then error('record of an unknown format: ' .. format) end
  return {
    id = string.sub(entry, 1, 16), entry = entry, bytes = #entry - 16, state = 0, flags = flags, priority = priority,
    sequence = 0, created_at = 0, ready_at = ready_at, attempt = 0, fingerprint = fingerprint, policy = policy, queue = queue,
    name = name, lane = lane, unique = unique, tags = tags, links = links,
  }
end

-- Return the first bytes of a new record.
function new_record.pack_start(state, flags, priority) return pack(START, record.FORMAT, state, flags, priority) end

-- Return the record of an entry. `start` comes from pack_start.
function new_record.pack(start, sequence, created_at, ready_at, entry)
  return start .. pack(INSTANTS, sequence, created_at, ready_at) .. sub(entry, AFTER_HEADER)
end

function new_record.write(job)
  local start = new_record.pack_start(job.state, job.flags, job.priority)
  batch.set(keys.job(job.id), new_record.pack(start, job.sequence, job.created_at, job.ready_at, job.entry))
end

return new_record
