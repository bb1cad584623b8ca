-- Return the state of a job and its kept result. Can register a wakeup for the end of a job that has not ended.
-- arguments: ARGV[1] clock offset, [2] id, [3] '1' to consume the result (read once), [4] wakeup list ('': do not
--            wait), [5] '1' to remove the wakeup list, because its owner no longer waits
-- returns:   {state, result with its codec or nil, last unsuccessful attempt or nil}
-- refusals:  unknown_job, already_ended (as a string)
-- flags: allow-oom
local STATE = require('constants').STATE
local batch = require 'batch'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local keys = require 'keys'

return function(arguments)
  local id, consumes, wakeup_list = arguments[2], arguments[3] == '1', arguments[4]
  local job = record.load(id)
  if not job then return ending.missing(id) end
  if not record.is_ended(job) then
    if arguments[5] == '1' then
      redis.call('SREM', keys.end_waiters(id), wakeup_list)
    elseif wakeup_list ~= '' then
      redis.call('SADD', keys.end_waiters(id), wakeup_list)
      record.mark(job, 'awaited')
      record.save(job)
      batch.flush()
    end
    return {job.state, false, false}
  end
  local result = record.has(job, 'has_outcome') and redis.call('GET', keys.result(id))
  local attempt = job.state ~= STATE.finished and record.has(job, 'has_attempts') and redis.call('LINDEX', keys.attempts(id), -1)
  if result and consumes then
    batch.delete(keys.result(id))
    record.unmark(job, 'has_outcome')
    record.save(job)
    batch.flush()
  end
  return {job.state, result, attempt}
end
