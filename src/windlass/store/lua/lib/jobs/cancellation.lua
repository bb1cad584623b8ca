-- Cancel of a job that has not ended: without a lease it ends at once; with a lease it gets a durable request to stop.
local STATE = require('constants').STATE
local events = require 'events'
local attempts = require 'jobs.attempts'
local counters = require 'jobs.counters'
local ending = require 'jobs.ending'
local index = require 'jobs.index'
local record = require 'jobs.record'
local keys = require 'keys'
local wakeups = require 'workers.wakeups'

local cancellation = {}

local function notify_worker(job)
  if job.worker == record.NO_ID then return end
  local wakeup_list = redis.call('HGET', keys.worker(job.worker), 'bell')
  if wakeup_list and wakeup_list ~= '' then wakeups.send(wakeup_list, 'C' .. job.id) end
end

-- `spares_running`: a leased job is left alone; a retake job ends at once instead.
function cancellation.cancel_record(job, reason, ignores_waiting, spares_running)
  if record.is_leased(job) and spares_running and not record.has(job, 'retake') then return 'wrong_state' end
  if record.is_leased(job) and not spares_running and not record.has(job, 'retakeable') then
    record.mark(job, 'cancel_requested')
    record.save(job)
    notify_worker(job)
    return 'requested'
  end
  attempts.log(job, reason, '')
  counters.add(job.queue, 'cancelled', 1)
  -- A group has no work of its own: its cancel reaches all of its members.
  local reach = record.has(job, 'joins') and 'all' or nil
  ending.end_job(job, STATE.cancelled, {reach = reach, ignores_waiting = ignores_waiting})
  return 'cancelled'
end

-- Cancel a failed job: jobs that need its outcome see it as cancelled.
local function cancel_failed(job, ignores_waiting)
  index.leave(job)
  job.state = STATE.cancelled
  record.unmark(job, 'ended_by_member')
  events.announce_state(job)
  ending.settle(job, ignores_waiting)
  return 'cancelled'
end

function cancellation.cancel(id, reason, counts_waiting, even_failed, spares_running)
  local job = record.load(id)
  if not job then return ending.missing(id) end
  if job.state == STATE.failed and even_failed == '1' and not record.has(job, 'in_history') then
    return cancel_failed(job, counts_waiting ~= '1')
  end
  if record.is_ended(job) then return 'already_ended' end
  return cancellation.cancel_record(job, reason, counts_waiting ~= '1', spares_running == '1')
end

return cancellation
