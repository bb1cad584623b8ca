-- Report the progress of leased jobs, set their notes, or replace their payloads.
-- arguments: version (of the limits, for payloads); then per job: id, token, progress (in millionths; '': unchanged),
--            has_note ('1': a note follows), note, kind (of the payload; '': none follows; '1': it changes no tags;
--            't' + I4 revision at which the job was read + all tags as stored), codec (of the payload, as flag bits),
--            payload
-- returns:   per job {revision, 1 when its cancel was requested} or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state; for a payload revision_conflict and limits_changed
--            (match again)
-- flags: allow-oom
local EVENT = require('constants').EVENT
local batch = require 'batch'
local events = require 'events'
local job_note = require 'jobs.job_note'
local job_tags = require 'jobs.job_tags'
local record = require 'jobs.record'
local reports = require 'leases.reports'
local limits = require 'limits.limits'
local script = require 'script'

local TAGS_AT = 6 -- in `kind`, behind its letter and the revision

-- Return why a payload cannot be stored with these tags, and the tags (nil: unchanged).
local function read_tags(job, kind, is_stale)
  if is_stale then return 'limits_changed' end
  if kind == '1' then return job_tags.depend_on_payload(job) and 'limits_changed' or nil end
  if struct.unpack('>I4', kind, 2) ~= job.revision then return 'revision_conflict' end
  return nil, string.sub(kind, TAGS_AT)
end

local function update(is_stale, id, token, progress, has_note, note, kind, codec, payload)
  local job, refused = reports.find_held(id, tonumber(token))
  if not job then return refused end
  local refusal, tags = nil, nil
  if kind ~= '' then refusal, tags = read_tags(job, kind, is_stale) end
  if refusal then return refusal end
  if progress ~= '' then job.progress = tonumber(progress) end
  if has_note == '1' then job_note.set(job, note) end
  if kind ~= '' then
    if tags then job_tags.change(job, tags) end
    record.set_bits(job, record.CODEC_BITS, tonumber(codec))
    job.revision = job.revision + 1
    record.rewrite(job, payload)
  else
    record.save(job)
  end
  if progress ~= '' or has_note == '1' then events.announce(EVENT.progress, job, job_note.of(job)) end
  return {job.revision, record.has(job, 'cancel_requested') and 1 or 0}
end

return function(arguments, version)
  local is_stale
  local answers = script.map(arguments, 3, 8, function(...)
    if is_stale == nil and select(6, ...) ~= '' then is_stale = limits.have_changed(version) end
    return update(is_stale, ...)
  end)
  batch.flush()
  return answers
end
