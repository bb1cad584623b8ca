-- Jobs that are added together or not at all: all of them are checked before the first is written.
local link_dependencies = require 'dependencies.link_dependencies'
local flow_record = require 'flows.flow_record'
local ending = require 'jobs.ending'
local insert = require 'jobs.insert'
local new_record = require 'jobs.new_record'
local record = require 'jobs.record'
local unique_keys = require 'jobs.unique_keys'
local caps = require 'limits.caps'
local configuration = require 'queues.configuration'

local atomic_batch = {}

local WITH_NEXT = 255 -- first byte of a job's terms: it is added with the next job
local CAPPED = 254 -- next byte: I2 length of a cap, and the cap

function atomic_batch.is_with_next(terms) return string.byte(terms) == WITH_NEXT end

-- Return the rest of a job's terms, and the cap that it brings, or nil.
function atomic_batch.own_terms(terms)
  if atomic_batch.is_with_next(terms) then terms = string.sub(terms, 2) end
  if string.byte(terms) ~= CAPPED then return terms, nil end
  local size = struct.unpack('>I2', terms, 2)
  return string.sub(terms, size + 4), string.sub(terms, 4, size + 3)
end

local function parent_refusal(job, before)
  if job.links == '' or before[record.links_of(job).parent] then return nil end
  return (link_dependencies.find_parent(job))
end

-- Make the one check of a unique key that is possible in advance. If two jobs of the call have the same key, the second
-- is refused.
local function key_refusal(job, terms, before)
  if terms == '' or string.byte(terms) ~= insert.UNIQUE_ACTION.refuse then return nil end
  local key = unique_keys.key_of(job)
  if before[key] or unique_keys.oldest_holder(job) then return 'unique_conflict' end
  before[key] = true
  return nil
end

local function awaited_refusal(terms, before)
  for at = 2, #terms, 16 do -- terms of one byte; the ids follow
    local id = string.sub(terms, at, at + 15)
    if not before[id] and not record.load(id) and ending.missing(id) == 'unknown_job' then return 'unknown_member' end
  end
  return nil
end

local function room_refusal(job, needed)
  local config = configuration.of(job.queue)
  if config.max_length == 0 and config.max_bytes == 0 then return nil end
  config.length = config.length or insert.waiting_length(job.queue)
  local need = needed[job.queue] or {jobs = 0, bytes = 0}
  needed[job.queue] = need
  need.jobs, need.bytes = need.jobs + 1, need.bytes + job.bytes
  local is_too_long = config.max_length > 0 and config.length + need.jobs > config.max_length
  local is_too_large = config.max_bytes > 0 and config.bytes + need.bytes > config.max_bytes
  return (is_too_long or is_too_large) and 'queue_full' or nil
end

-- Return why the jobs from the first to the last cannot be added, or nil. `entries` and `all_terms` are what the
-- caller sent.
function atomic_batch.refusal_of(first, last, entries, all_terms, has_ended)
  local before, needed = {}, {}
  for i = first, last do
    local job = new_record.decode(entries[i])
    local known = record.load(job.id)
    if known and known.fingerprint ~= job.fingerprint then return 'id_conflict' end
    if not known and not has_ended[i] then
      local terms, cap = atomic_batch.own_terms(all_terms[i])
      if caps.names_no_limit(cap) then return 'unknown_limit' end
      local refusal = parent_refusal(job, before) or awaited_refusal(terms, before) or key_refusal(job, terms, before)
        or flow_record.refusal_of(job, before) or room_refusal(job, needed)
      if refusal then return refusal end
    end
    before[job.id] = true
  end
  return nil
end

return atomic_batch
