-- Record of a new job as its caller packs it: of its header only format, flags, priority and ready time are read. Half
-- the fields are half the cost, and jobs are enqueued by the thousand.
local batch = require 'batch'
local record = require 'jobs.record'
local keys = require 'keys'
local script = require 'script'

local new_record = {}

local LAYOUT = '>Bc1I4i4c12I6c54c8Bc0Bc0I2c0Bc0I2c0I2c0I2c0'
local START = '>BBI4i4' -- format, state, flags, priority
new_record.HEADER = START .. 'I6I6I6' -- then sequence, created_at, ready_at
new_record.FIRST_REVISION = 1 -- as packed by the caller
local AFTER_HEADER = 17 + 28 -- in an entry: a job as its caller sends it, which begins with its id

local pack, unpack_bytes, sub
script.once(function() pack, unpack_bytes, sub = struct.pack, struct.unpack, string.sub end)

function new_record.decode(entry)
  local format, _, flags, priority, _, ready_at, _, fingerprint, policy, queue, name, lane, unique, tags, links =
    unpack_bytes(LAYOUT, entry, 17)
  if format ~= record.FORMAT then error('record of an unknown format: ' .. format) end
  return {
    id = sub(entry, 1, 16), entry = entry, bytes = #entry - 16, state = 0, flags = flags, priority = priority,
    sequence = 0, created_at = 0, ready_at = ready_at, attempt = 0, fingerprint = fingerprint, policy = policy,
    queue = queue, name = name, lane = lane, unique = unique, tags = tags, links = links,
  }
end

-- Return the first bytes of a new record.
function new_record.pack_start(state, flags, priority) return pack(START, record.FORMAT, state, flags, priority) end

-- Return the record of a queued entry. `start` comes from pack_start; the numbers are packed (record.pack_number),
-- because the caller needs them for the lane, too. Each string that need not be made saves a hundredth of an enqueue.
function new_record.pack(start, sequence, created_at, ready_at, entry)
  return start .. sequence .. created_at .. ready_at .. sub(entry, AFTER_HEADER)
end

function new_record.write(job)
  local header = pack(new_record.HEADER, record.FORMAT, job.state, job.flags, job.priority, job.sequence,
    job.created_at, job.ready_at)
  batch.set(keys.job(job.id), header .. sub(job.entry, AFTER_HEADER))
end

return new_record
