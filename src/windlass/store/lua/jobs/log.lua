-- Append log lines of lease holders to their jobs. Beyond the limit the oldest lines are removed. When the engine's
-- memory is full the lines are refused, unlike reports that end a job.
-- arguments: ARGV[1] clock offset; then per job: id, token (0: the current holder's), lines, each preceded by its
--            length
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
