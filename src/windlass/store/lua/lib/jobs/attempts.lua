-- Log of unsuccessful attempts and of other reasons for an unsuccessful end. The last few are kept with the job.
local clock = require 'clock'
local record = require 'jobs.record'
local keys = require 'keys'

local attempts = {}

local ATTEMPTS_KEPT = 20

function attempts.log(job, reason, content)
  local key = keys.attempts(job.id)
  redis.call('RPUSH', key,
    struct.pack('>I4I6I6c16Bc0', job.attempt, job.started_at, clock.now_ms, job.worker, #reason, reason) .. content)
  redis.call('LTRIM', key, -ATTEMPTS_KEPT, -1)
  record.mark(job, 'has_attempts')
end

return attempts
