-- End of a run with content from the caller: guards, then finish, fail or run again.
local STATE = require('constants').STATE
local clock = require 'clock'
local dependencies = require 'dependencies.dependencies'
local yield_to_children = require 'dependencies.yield_to_children'
local durable_state = require 'durable.state'
local events = require 'events'
local amend = require 'jobs.amend'
local attempts = require 'jobs.attempts'
local counters = require 'jobs.counters'
local end_header = require 'jobs.end_header'
local ending = require 'jobs.ending'
local index = require 'jobs.index'
local job_note = require 'jobs.job_note'
local record = require 'jobs.record'
local requeue = require 'jobs.requeue'
local unique_keys = require 'jobs.unique_keys'

local complete = {}

function complete.refusal_of(job, terms)
  if terms.guard > 0 and terms.guard ~= job.revision then return 'revision_conflict' end
  if record.has(job, 'joins') then return 'wrong_state' end
  local parent = terms.if_parent_waits and dependencies.parent_of(job)
  if parent and parent.state ~= STATE.waiting then return 'parent_state' end
  if job.state == STATE.waiting and dependencies.is_unsettled(job.id, 'f0', 'f1') then return 'unsettled' end
  return nil
end

-- The record must not be in an index whose key depends on the changed fields, or must enter it again.
local function adopt(job, content)
  local payload = content.codec ~= '' and content.payload or record.payload_of(job)
  amend.apply(job, content)
  if content.unique ~= '' and content.unique ~= job.unique then
    unique_keys.release(job)
    job.unique = content.unique
    unique_keys.hold(job)
  end
  return payload
end

-- `content.run_at` is set. Ended members are removed, unless they are kept for the next run.
function complete.run_again(job, content, keeps_members)
  if record.is_ended(job) then
    local answer = requeue.requeue(job, job.revision, content.limits or record.links_of(job).limits)
    if answer ~= 'queued' then return answer end
  end
  index.leave(job)
  job.state, job.progress = STATE.queued, 0 -- from here on it holds none of its limits
  job.token, job.deadline, job.worker = 0, 0, record.NO_ID
  record.unmark(job, 'cancel_requested')
  record.unmark(job, 'held')
  local payload = adopt(job, content)
  job.state = index.state_by_time(job)
  if record.has(job, 'has_members') and not keeps_members then yield_to_children.begin_round(job) end
  requeue.drop_expiry(job)
  index.enter(job)
  record.rewrite(job, payload)
  job_note.drop(job)
  return 'again'
end

function complete.cancel_instead(job)
  counters.add(job.queue, 'cancelled', 1)
  ending.end_job(job, STATE.cancelled)
  return 'cancelled'
end

function complete.write_content(job, content)
  content.run_at, content.attempt = '', ''
  if content.name .. content.unique .. content.priority .. content.rule .. content.codec == '' then return end
  local is_pending, is_retakeable = record.is_pending(job), record.has(job, 'retakeable')
  if is_pending then index.leave(job) elseif is_retakeable then index.leave_lane(job) end
  local payload = adopt(job, content)
  if is_pending then index.enter(job) elseif is_retakeable then index.enter_lane(job) end
  record.rewrite(job, payload)
end

-- A job that has already ended, in whatever state, becomes finished.
local function end_well(job, ran_ms)
  counters.add_finished(job.queue, ran_ms)
  if record.is_ended(job) then
    index.leave(job)
    job.state = STATE.finished
    events.announce_state(job)
    ending.settle(job)
  else
    end_header.complete(job)
    ending.end_job(job, STATE.finished)
  end
  return 'finished'
end

function complete.fail(job, reason)
  attempts.log(job, reason, '')
  counters.add(job.queue, 'failed', 1)
  ending.end_job(job, STATE.failed)
  return 'failed'
end

function complete.finish(job, content)
  local run_at = content.run_at
  complete.write_content(job, content)
  local ran_ms = record.is_leased(job) and math.max(0, clock.now_ms - job.started_at) or nil
  if ran_ms then counters.add(job.queue, 'run_ms', ran_ms) end
  local instead = record.is_leased(job) and record.has(job, 'has_members') and yield_to_children.try(job)
  if instead then return instead end
  if run_at == '' then return end_well(job, ran_ms) end
  if record.has(job, 'cancel_requested') then return complete.cancel_instead(job) end
  counters.add_finished(job.queue, ran_ms)
  durable_state.clear(job)
  local unchanged = {name = '', unique = '', priority = '', run_at = run_at, attempt = 0, rule = '', codec = ''}
  return complete.run_again(job, unchanged)
end

return complete
