-- uses: keys, batch, record
-- Last note of a lease holder. It is at the end of the record's extras, so that it is read with the record: text, zeros
-- up to its room, bytes used, bytes of room.
local NOTE_SIZES = '>I2I2'
local NOTE_SIZES_BYTES = 4
local NOTE_ROOM = 256 -- in a long record, so that not every note rewrites it

local function note_sizes(r) return struct.unpack(NOTE_SIZES, r.extras, #r.extras - NOTE_SIZES_BYTES + 1) end

-- Return the note as it is stored; '' if there is none.
local function stored_note(r)
  if not has(r, 'has_note') then return '' end
  local _, room = note_sizes(r)
  return string.sub(r.extras, -(room + NOTE_SIZES_BYTES))
end

local function note_of(r)
  if not has(r, 'has_note') then return '' end
  local used = note_sizes(r)
  return string.sub(stored_note(r), 1, used)
end

local function pack_note(note, room)
  return note .. string.rep('\0', room - #note) .. struct.pack(NOTE_SIZES, #note, room)
end

local function extras_without_note(r) return string.sub(r.extras, 1, #r.extras - #stored_note(r)) end

-- A new attempt begins without a note.
local function drop_note(r)
  if not has(r, 'has_note') then return end
  local payload = payload_of(r)
  r.extras = extras_without_note(r)
  unmark(r, 'has_note')
  rewrite(r, payload)
end

local function overwrite_note(r, note, room)
  local stored = pack_note(note, room)
  local at = r.head_bytes - #stored
  r.extras = extras_without_note(r) .. stored
  r.raw = string.sub(r.raw, 1, at) .. stored .. string.sub(r.raw, r.head_bytes + 1)
  if not is_written_whole(r) then redis.call('SETRANGE', job_key(r.id), at, stored) end
end

local function enter_note(r, note)
  local payload = payload_of(r)
  local room = r.bytes > SMALL_BYTES and NOTE_ROOM or #note
  r.extras = extras_without_note(r) .. pack_note(note, room)
  mark(r, 'has_note')
  rewrite(r, payload)
end

-- The caller must save the record afterwards.
local function set_note(r, note)
  local room = has(r, 'has_note') and select(2, note_sizes(r)) or 0
  if #note > room then
    enter_note(r, note)
  elseif room > 0 then
    overwrite_note(r, note, room)
  end
end
