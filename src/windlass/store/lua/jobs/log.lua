-- The holder of a lease leaves lines with its job; of more than are kept, the oldest go. When the engine's memory is full
-- they are refused, unlike reports that end a job.
-- arguments: ARGV[1] clock offset; then per job: id, token (0: whoever holds it), lines, each with its length before it
-- returns:   per job 'ok' or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- uses: batch, record, reports, job_log
local function log(id, token, lines)
  local r, refused = held(id, token)
  if not r then return refused end
  append_lines(r, lines)
  if not has(r, 'has_logs') then
    mark(r, 'has_logs')
    save(r)
  end
  return 'ok'
end

local answers = {}
for i = 2, #ARGV, 3 do table.insert(answers, log(ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2])) end
flush()
return answers
