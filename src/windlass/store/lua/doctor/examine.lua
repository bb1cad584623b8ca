-- Check whether keys agree with each other. On request, repair those that do not, in the same step.
-- arguments: ARGV[1] clock offset, [2] '1' to repair, [3] about how many entries to check; then per key: key without
--            the root, cursor within it ('0' to start)
-- returns:   {jobs checked, {code, example, 1 when repaired, ...}, {key, cursor, ... still to be checked}}
-- refusals:  none
-- flags: allow-oom
-- uses: batch, wakeups, ending, findings, checkup, wake_takers
begin_findings(ARGV[2] == '1', tonumber(ARGV[3]))
local left = {}
for i = 4, #ARGV, 2 do
  local cursor = ARGV[i + 1]
  if has_budget() then cursor = examine_key(ARGV[i], cursor) end
  if cursor then
    left[#left + 1] = ARGV[i]
    left[#left + 1] = cursor
  end
end
flush()
ring_all()
trim_histories()
local jobs, rows = end_findings()
return {jobs, rows, left}
