-- uses: keys, clock, record
-- Log of unsuccessful attempts and of other reasons for an unsuccessful end. The last few are kept with the job.
local ATTEMPTS_KEPT = 20

local function log_attempt(r, reason, content)
  local key = P .. 'a:' .. r.id
  redis.call('RPUSH', key,
    struct.pack('>I4I6I6c16Bc0', r.attempt, r.started_at, now_ms, r.worker, #reason, reason) .. content)
  redis.call('LTRIM', key, -ATTEMPTS_KEPT, -1)
  mark(r, 'has_attempts')
end
