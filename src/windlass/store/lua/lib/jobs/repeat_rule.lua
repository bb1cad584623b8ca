-- Repeat rule of a job: its planned instant (0: its creation) and the rule are at the beginning of its extras.
local job_note = require 'jobs.job_note'
local record = require 'jobs.record'

local repeat_rule = {}

local REPEAT = '>I6Bc0'

function repeat_rule.of(job)
  local planned_at, rule = struct.unpack(REPEAT, job.extras)
  return planned_at > 0 and planned_at or job.created_at, rule
end

-- An empty rule ends the repetition. The caller must rewrite the record afterwards.
function repeat_rule.set(job, planned_at, rule)
  local rest = job.extras
  if record.has(job, 'repeats') then
    local _, _, rest_at = struct.unpack(REPEAT, rest)
    rest = string.sub(rest, rest_at)
  end
  if rule == '' then
    record.unmark(job, 'repeats')
    job.extras = rest
  else
    record.mark(job, 'repeats')
    job.extras = struct.pack(REPEAT, planned_at, #rule, rule) .. rest
  end
end

-- Take over the extras of a job that replaces the content of another. Without its own time it keeps the existing plan.
-- A note belongs to the holder, not to the content.
function repeat_rule.adopt_extras(existing, job)
  local planned_at = existing.ready_at
  if record.has(existing, 'repeats') then planned_at = repeat_rule.of(existing) end
  existing.extras = job.extras .. job_note.stored(existing)
  record.unmark(existing, 'repeats')
  if not record.has(job, 'repeats') then return end
  record.mark(existing, 'repeats')
  local own_at, rule = struct.unpack(REPEAT, job.extras)
  repeat_rule.set(existing, own_at > 0 and own_at or planned_at, rule)
end

return repeat_rule
