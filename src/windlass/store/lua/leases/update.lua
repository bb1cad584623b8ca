-- Report the progress of leased jobs, set their notes, or replace their payloads.
-- arguments: per job: id, token, progress (in millionths; '': unchanged), has_note ('1': a note follows), note,
--            has_payload ('1': a payload follows), codec (of the payload, as flag bits), payload
-- returns:   per job {revision, 1 when its cancel was requested} or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
local EVENT = require('constants').EVENT
local batch = require 'batch'
local events = require 'events'
local job_note = require 'jobs.job_note'
local record = require 'jobs.record'
local reports = require 'leases.reports'
local script = require 'script'

local function update(id, token, progress, has_note, note, has_payload, codec, payload)
  local job, refused = reports.find_held(id, tonumber(token))
  if not job then return refused end
  if progress ~= '' then job.progress = tonumber(progress) end
  if has_note == '1' then job_note.set(job, note) end
  if has_payload == '1' then
    record.set_bits(job, record.CODEC_BITS, tonumber(codec))
    job.revision = job.revision + 1
    record.rewrite(job, payload)
  else
    record.save(job)
  end
  if progress ~= '' or has_note == '1' then events.announce(EVENT.progress, job, job_note.of(job)) end
  return {job.revision, record.has(job, 'cancel_requested') and 1 or 0}
end

return function(arguments)
  local answers = script.map(arguments, 2, 8, update)
  batch.flush()
  return answers
end
