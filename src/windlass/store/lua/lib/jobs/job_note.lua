-- Last note of a lease holder. It is at the end of the record's extras, so that it is read with the record: text, zeros
-- up to its room, bytes used, bytes of room.
local record = require 'jobs.record'
local keys = require 'keys'

local job_note = {}

local NOTE_SIZES = '>I2I2'
local NOTE_SIZES_BYTES = 4
local NOTE_ROOM = 256 -- in a long record, so that not every note rewrites it

local function note_sizes(job) return struct.unpack(NOTE_SIZES, job.extras, #job.extras - NOTE_SIZES_BYTES + 1) end

-- Return the note as it is stored; '' if there is none.
function job_note.stored(job)
  if not record.has(job, 'has_note') then return '' end
  local _, room = note_sizes(job)
  return string.sub(job.extras, -(room + NOTE_SIZES_BYTES))
end

function job_note.of(job)
  if not record.has(job, 'has_note') then return '' end
  local used = note_sizes(job)
  return string.sub(job_note.stored(job), 1, used)
end

local function pack_note(note, room)
  return note .. string.rep('\0', room - #note) .. struct.pack(NOTE_SIZES, #note, room)
end

local function extras_without_note(job) return string.sub(job.extras, 1, #job.extras - #job_note.stored(job)) end

-- A new attempt begins without a note.
function job_note.drop(job)
  if not record.has(job, 'has_note') then return end
  local payload = record.payload_of(job)
  job.extras = extras_without_note(job)
  record.unmark(job, 'has_note')
  record.rewrite(job, payload)
end

local function overwrite_note(job, note, room)
  local stored = pack_note(note, room)
  local at = job.head_bytes - #stored
  job.extras = extras_without_note(job) .. stored
  job.raw = string.sub(job.raw, 1, at) .. stored .. string.sub(job.raw, job.head_bytes + 1)
  if not record.is_written_whole(job) then redis.call('SETRANGE', keys.job(job.id), at, stored) end
end

local function enter_note(job, note)
  local payload = record.payload_of(job)
  local room = job.bytes > record.SMALL_BYTES and NOTE_ROOM or #note
  job.extras = extras_without_note(job) .. pack_note(note, room)
  record.mark(job, 'has_note')
  record.rewrite(job, payload)
end

-- The caller must save the record afterwards.
function job_note.set(job, note)
  local room = record.has(job, 'has_note') and select(2, note_sizes(job)) or 0
  if #note > room then
    enter_note(job, note)
  elseif room > 0 then
    overwrite_note(job, note, room)
  end
end

return job_note
