-- uses: keys, batch, record
-- Findings of an examination in this call. A repair runs at once, in the step that found the problem.
local repairs, entries_left, jobs_seen, found_rows
at_start[#at_start + 1] = function() repairs, entries_left, jobs_seen, found_rows = false, 0, 0, {} end

local function begin_findings(may_repair, most) repairs, entries_left = may_repair, most end
local function end_findings() return jobs_seen, found_rows end
local function has_budget() return entries_left > 0 end
local function spend_budget(entries) entries_left = entries_left - entries end
local function count_job() jobs_seen = jobs_seen + 1 end

-- An example begins with its kind: a job, a queue, a lane of a queue, or a key.
local function job_example(id) return 'j' .. id end
local function queue_example(queue) return 'q' .. queue end
local function lane_example(queue, lane) return 'l' .. queue .. '\0' .. lane end
local function key_example(name) return 'k' .. name end

-- Record a finding. `mend` repairs it; without it a person must decide.
local function find(code, example, mend)
  local is_mended = repairs and mend ~= nil
  found_rows[#found_rows + 1] = code
  found_rows[#found_rows + 1] = example
  found_rows[#found_rows + 1] = is_mended and 1 or 0
  if is_mended then
    mend()
    flush()
  end
end

-- Drop the pending writes of a failed repair, so that the next repair does not send them.
local function discard_pending() z_pending, value_pending, count_pending = {}, {}, {} end
