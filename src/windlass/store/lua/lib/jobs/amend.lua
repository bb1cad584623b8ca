-- uses: record, limits, caps, repeat_rule
-- Changes to the content of a job, shared by edit and complete_with_children. The caller must rewrite the record
-- afterwards.

-- A new run time is a new plan: the rule counts from it. `rule`: '' unchanged, '-' none.
local function change_repeat(r, rule, run_at)
  local repeats = has(r, 'repeats')
  if rule == '' and not (repeats and run_at ~= '') then return end
  local planned_at, known = r.ready_at, ''
  if repeats then planned_at, known = repeat_of(r) end
  if run_at ~= '' then planned_at = r.ready_at end
  set_repeat(r, planned_at, rule == '-' and '' or rule == '' and known or rule)
end

-- Fields that are '' stay unchanged. The job must have left its lane.
local function amend(r, content)
  if content.name ~= '' then r.name = content.name end
  if content.priority ~= '' then r.priority = tonumber(content.priority) end
  if content.run_at ~= '' then r.ready_at = tonumber(content.run_at) end
  if content.attempt ~= '' then r.attempt = tonumber(content.attempt) end
  change_repeat(r, content.rule, content.run_at)
  if content.codec ~= '' then r.flags = bit.bor(bit.band(r.flags, bit.bnot(CODEC_BITS)), tonumber(content.codec)) end
  if content.limits then change_limits(r, content.limits) end
  r.revision = r.revision + 1
end
