-- Return entries of a job's stream after a position. Read-only.
-- arguments: id, after, most
-- returns:   {state of the job, last position, {position, entry, ...}} (durable/stream.lua)
-- refusals:  unknown_job, already_ended (as a string)
-- flags: no-writes
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local keys = require 'keys'

local ENTRY_BYTES_MAX = 4194304 -- of one answer, about

return function(_, id, after, most)
  local job = record.load(id)
  if not job then return ending.missing(id) end
  local found, bytes = {}, 0
  local first = string.format('%.0f-0', tonumber(after) + 1)
  local entries = record.has(job, 'durable') and redis.call('XRANGE', keys.stream(id), first, '+', 'COUNT', most) or {}
  for _, entry in ipairs(entries) do
    if bytes >= ENTRY_BYTES_MAX then break end
    found[#found + 1] = tonumber(string.match(entry[1], '^%d+'))
    found[#found + 1] = entry[2][2]
    bytes = bytes + #entry[2][2]
  end
  local last = tonumber(record.has(job, 'durable') and redis.call('HGET', keys.durable(id), 'x') or 0)
  return {job.state, last, found}
end
