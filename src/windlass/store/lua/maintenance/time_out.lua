-- End attempts that exceeded their execution timeout, as decided by the recoverer.
-- arguments: ARGV[1] clock offset; then per job: id, token, 'retry' | 'final', delay_ms of the retry
-- returns:   per job 'retried', 'failed', 'cancelled', 'stale_lease' (another report came first) or another refusal
-- refusals:  unknown_job, already_ended, stale_lease
-- flags: allow-oom
-- uses: batch, record, wakeups, ending, reports, expiry, wake_takers
local function time_out(id, token, then_what, delay_ms)
  local r, refused = held(id, token)
  if not r then return refused end
  if not is_timed_out(r) then return 'stale_lease' end
  if has(r, 'cancel_requested') then then_what = 'cancelled' end
  return fail(id, token, then_what, delay_ms, 'timeout', '')
end

local answers = {}
for i = 2, #ARGV, 4 do
  table.insert(answers, time_out(ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2], tonumber(ARGV[i + 3])))
end
flush()
ring_all()
trim_histories()
return answers
