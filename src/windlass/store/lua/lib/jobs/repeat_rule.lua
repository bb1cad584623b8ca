-- uses: record, note
-- Repeat rule of a job: its planned instant (0: its creation) and the rule are at the beginning of its extras.
local REPEAT = '>I6Bc0'

local function repeat_of(r)
  local planned_at, rule = struct.unpack(REPEAT, r.extras)
  return planned_at > 0 and planned_at or r.created_at, rule
end

-- An empty rule ends the repetition. The caller must rewrite the record afterwards.
local function set_repeat(r, planned_at, rule)
  local rest = r.extras
  if has(r, 'repeats') then
    local _, _, rest_at = struct.unpack(REPEAT, rest)
    rest = string.sub(rest, rest_at)
  end
  if rule == '' then
    unmark(r, 'repeats')
    r.extras = rest
  else
    mark(r, 'repeats')
    r.extras = struct.pack(REPEAT, planned_at, #rule, rule) .. rest
  end
end

-- Take over the extras of a job that replaces the content of another. Without its own time it keeps the existing plan.
-- A note belongs to the holder, not to the content.
local function adopt_extras(existing, r)
  local planned_at = existing.ready_at
  if has(existing, 'repeats') then planned_at = repeat_of(existing) end
  existing.extras = r.extras .. stored_note(existing)
  unmark(existing, 'repeats')
  if not has(r, 'repeats') then return end
  mark(existing, 'repeats')
  local own_at, rule = struct.unpack(REPEAT, r.extras)
  set_repeat(existing, own_at > 0 and own_at or planned_at, rule)
end
