-- Return the state of a job and its kept result. Can register a wakeup for the end of a job that has not ended.
-- arguments: id, consumes ('1': consume the result, which can be read once), wakeup_list ('': do not wait), withdraws
--            ('1': remove the wakeup list, because its owner no longer waits)
-- returns:   {state, result with its codec or nil, last unsuccessful attempt or nil}
-- refusals:  unknown_job, already_ended (as a string)
-- flags: allow-oom
local STATE = require('constants').STATE
local batch = require 'batch'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local keys = require 'keys'

local function await_end(job, wakeup_list)
  redis.call('SADD', keys.end_waiters(job.id), wakeup_list)
  record.mark(job, 'awaited')
  record.save(job)
  batch.flush()
end

local function consume_result(job)
  batch.delete(keys.result(job.id))
  record.unmark(job, 'has_outcome')
  record.save(job)
  batch.flush()
end

return function(_, id, consumes, wakeup_list, withdraws)
  local job = record.load(id)
  if not job then return ending.missing(id) end
  if not record.is_ended(job) then
    if withdraws == '1' then
      redis.call('SREM', keys.end_waiters(id), wakeup_list)
    elseif wakeup_list ~= '' then
      await_end(job, wakeup_list)
    end
    return {job.state, false, false}
  end
  local result = record.has(job, 'has_outcome') and redis.call('GET', keys.result(id))
  local has_attempt = job.state ~= STATE.finished and record.has(job, 'has_attempts')
  local attempt = has_attempt and redis.call('LINDEX', keys.attempts(id), -1)
  if result and consumes == '1' then consume_result(job) end
  return {job.state, result, attempt}
end
