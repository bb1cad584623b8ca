-- Changes to the content of a job, shared by edit and complete_with_children. The caller must rewrite the record
-- afterwards.
local job_tags = require 'jobs.job_tags'
local record = require 'jobs.record'
local repeat_rule = require 'jobs.repeat_rule'
local caps = require 'limits.caps'

local amend = {}

-- A new run time is a new plan: the rule counts from it. `rule`: '' unchanged, '-' none.
local function change_repeat(job, rule, run_at)
  local repeats = record.has(job, 'repeats')
  if rule == '' and not (repeats and run_at ~= '') then return end
  local planned_at, known = job.ready_at, ''
  if repeats then planned_at, known = repeat_rule.of(job) end
  if run_at ~= '' then planned_at = job.ready_at end
  repeat_rule.set(job, planned_at, rule == '-' and '' or rule == '' and known or rule)
end

-- Fields that are '' stay unchanged. The job must have left its lane.
function amend.apply(job, content)
  if content.name ~= '' then job.name = content.name end
  if content.priority ~= '' then job.priority = tonumber(content.priority) end
  if content.run_at ~= '' then job.ready_at = tonumber(content.run_at) end
  if content.attempt ~= '' then job.attempt = tonumber(content.attempt) end
  change_repeat(job, content.rule, content.run_at)
  if content.codec ~= '' then
    record.set_bits(job, record.CODEC_BITS, tonumber(content.codec))
  end
  if content.tags then job_tags.change(job, content.tags) end
  if content.limits then caps.change_limits(job, content.limits) end
  job.revision = job.revision + 1
end

return amend
