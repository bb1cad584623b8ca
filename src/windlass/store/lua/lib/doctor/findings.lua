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

local function report(code, example, repair)
  local is_repaired = repairs and repair ~= nil
  found_rows[#found_rows + 1] = code
  found_rows[#found_rows + 1] = example
  found_rows[#found_rows + 1] = is_repaired and 1 or 0
  if is_repaired then
    repair()
    batch.flush()
  end
end

-- Report a finding on a job, a queue, a lane of a queue, or a key. `repair` corrects it; without it a person must
-- decide.
function findings.report_job(code, id, repair) report(code, 'j' .. id, repair) end
function findings.report_queue(code, queue, repair) report(code, 'q' .. queue, repair) end
function findings.report_lane(code, queue, lane, repair) report(code, 'l' .. queue .. '\0' .. lane, repair) end
function findings.report_key(code, name, repair) report(code, 'k' .. name, repair) end

-- Drop the pending writes of a failed repair, so that the next repair does not send them.
function findings.discard_pending() batch.sorted_sets, batch.values, batch.counts = {}, {}, {} end

return findings
