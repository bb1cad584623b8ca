-- Log lines of lease holders, stored with their job: a list, bounded in number and bytes. An entry contains the number
-- of entries and bytes before it, including dropped ones. So the ends of the list show how much was dropped and how
-- much is stored. Its attempt follows, then the line as its writer packed it.
local LOG = require('constants').LOG
local record = require 'jobs.record'
local keys = require 'keys'

local job_log = {}

local ENTRY_HEAD = '>I4I6I4'

local function begin_of(entry)
  local number, bytes = struct.unpack(ENTRY_HEAD, entry)
  return number, bytes
end

-- Return the numbers of entries and bytes before the next entry.
local function end_of_log(job)
  local last = record.has(job, 'has_logs') and redis.call('LINDEX', keys.log(job.id), -1)
  if not last then return 0, 0 end
  local number, bytes = begin_of(last)
  return number + 1, bytes + #last
end

local function pack_entries(job, lines)
  local number, bytes = end_of_log(job)
  local entries, at = {}, 1
  while at <= #lines do
    local line
    line, at = struct.unpack('>I2c0', lines, at)
    local entry = struct.pack(ENTRY_HEAD, number, bytes, job.attempt) .. line
    entries[#entries + 1] = entry
    number, bytes = number + 1, bytes + #entry
  end
  return entries, bytes
end

-- Return the first entry to keep: if not all fit, the last ones are kept.
local function first_that_fits(entries, bytes)
  local first = math.max(1, #entries - LOG.lines_kept + 1)
  while bytes - select(2, begin_of(entries[first])) > LOG.bytes_kept do first = first + 1 end
  return first
end

local function trim_log(key, length, bytes)
  if length > LOG.lines_kept then redis.call('LTRIM', key, -LOG.lines_kept, -1) end
  while bytes - select(2, begin_of(redis.call('LINDEX', key, 0))) > LOG.bytes_kept do redis.call('LPOP', key) end
end

-- Append lines, each preceded by its length. The caller must save the record if it had no log before.
function job_log.append(job, lines)
  local key = keys.log(job.id)
  local entries, bytes = pack_entries(job, lines)
  local length = redis.call('RPUSH', key, unpack(entries, first_that_fits(entries, bytes)))
  trim_log(key, length, bytes)
end

return job_log
