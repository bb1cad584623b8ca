-- Findings of an examination in this call. A repair runs at once, in the step that found the problem.
local batch = require 'batch'
local script = require 'script'

local findings = {}

local repairs, entries_left, jobs_seen, found_rows
script.on_start(function() repairs, entries_left, jobs_seen, found_rows = false, 0, 0, {} end)

function findings.begin(may_repair, most) repairs, entries_left = may_repair, most end
function findings.collect() return jobs_seen, found_rows end
function findings.has_budget() return entries_left > 0 end
function findings.spend_budget(entries) entries_left = entries_left - entries end
function findings.count_job() jobs_seen = jobs_seen + 1 end

-- An example begins with its kind: a job, a queue, a lane of a queue, or a key.
function findings.job_example(id) return 'j' .. id end
function findings.queue_example(queue) return 'q' .. queue end
function findings.lane_example(queue, lane) return 'l' .. queue .. '\0' .. lane end
function findings.key_example(name) return 'k' .. name end

-- Record a finding. `mend` repairs it; without it a person must decide.
function findings.add(code, example, mend)
  local is_mended = repairs and mend ~= nil
  found_rows[#found_rows + 1] = code
  found_rows[#found_rows + 1] = example
  found_rows[#found_rows + 1] = is_mended and 1 or 0
  if is_mended then
    mend()
    batch.flush()
  end
end

-- Drop the pending writes of a failed repair, so that the next repair does not send them.
function findings.discard_pending() batch.sorted_sets, batch.values, batch.counts = {}, {}, {} end

return findings
