-- uses: keys, batch, record
-- Record of a new job as its caller packs it: of its header only format, flags, priority and ready time are read. Half
-- the fields are half the cost, and jobs are enqueued by the thousand.
local NEW_LAYOUT = '>Bc1I4i4c12I6c54c8Bc0Bc0I2c0Bc0I2c0I2c0I2c0'
local NEW_HEADER = '>BBI4i4I6I6I6'
local NEW_HEADER_BYTES = 28
local FIRST_REVISION = 1 -- as packed by the caller
local function decode_new(entry)
  local format, _, flags, priority, _, ready_at, _, fingerprint, policy, queue, name, lane, unique, tags, links =
    struct.unpack(NEW_LAYOUT, entry, 17)
  if format ~= FORMAT then error('record of an unknown format: ' .. format) end
  return {
    id = string.sub(entry, 1, 16), entry = entry, bytes = #entry - 16, state = 0, flags = flags, priority = priority,
    sequence = 0, created_at = 0, ready_at = ready_at, attempt = 0, fingerprint = fingerprint, policy = policy, queue = queue,
    name = name, lane = lane, unique = unique, tags = tags, links = links,
  }
end
local function write_new(r)
  local header = struct.pack(NEW_HEADER, FORMAT, r.state, r.flags, r.priority, r.sequence, r.created_at, r.ready_at)
  put(job_key(r.id), header .. string.sub(r.entry, 17 + NEW_HEADER_BYTES))
end
