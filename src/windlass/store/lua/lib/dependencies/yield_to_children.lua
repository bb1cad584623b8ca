-- Yield of a parent to its children: it finishes while members have not ended, and waits for them.
local STATE = require('constants').STATE
local batch = require 'batch'
local dependencies = require 'dependencies.dependencies'
local durable_state = require 'durable.state'
local attempts = require 'jobs.attempts'
local counters = require 'jobs.counters'
local ending = require 'jobs.ending'
local index = require 'jobs.index'
local record = require 'jobs.record'
local requeue = require 'jobs.requeue'
local keys = require 'keys'

local yield_to_children = {}

-- End a job because of a member. The logged attempt names the member.
function yield_to_children.end_by_member(job, state, member)
  local hex = string.gsub(member, '.', function(byte) return string.format('%02x', string.byte(byte)) end)
  local key = string.gsub(hex, '^(' .. string.rep('.', 8) .. ')(....)(....)(....)', '%1-%2-%3-%4-')
  local outcome = state == STATE.failed and 'failed' or 'cancelled'
  attempts.log(job, 'member_' .. outcome, '\0"' .. key .. '"')
  -- The failure of the member is counted. A job that only waited for it has no failure of its own.
  if record.has(job, 'awaits_only') then
    record.mark(job, 'ended_by_member')
  else
    counters.add(job.queue, outcome, 1)
  end
  ending.end_job(job, state)
  return outcome
end

-- Begin the next round: members whose end the parent has seen are removed, and later ends belong to the next round.
function yield_to_children.begin_round(job)
  local was_odd = record.has(job, 'odd_round')
  if was_odd then record.unmark(job, 'odd_round') else record.mark(job, 'odd_round') end
  redis.call('ZREMRANGEBYSCORE', keys.members(job.id), dependencies.DELETED, dependencies.DELETED)
  local offset = was_odd and dependencies.ODD_ROUND or 0
  if dependencies.count_members(job.id, STATE.finished + offset, STATE.finished + offset) > 0
    or dependencies.count_members(job.id, STATE.cancelled + offset, STATE.cancelled + offset) > 0 then
    dependencies.begin_step(was_odd and 'f1' or 'f0', job.id)
  end
end

local function become_waiting(job)
  if record.policy_of(job).expires_at > 0 then requeue.forget_expiry(job) end
  index.leave(job)
  -- It is due when it resumes. A yield is not a failure, so attempts are counted from 0 again.
  job.ready_at, job.attempt = job.started_at, 0
  job.token, job.deadline, job.worker = 0, 0, record.NO_ID
  job.state = STATE.waiting
  yield_to_children.begin_round(job)
  durable_state.note_yield(job)
  index.enter(job)
  record.save(job)
  dependencies.begin_step('r.', job.id)
end

-- Return the outcome of a job with members that replaces its finish, or nil.
function yield_to_children.try(job)
  if batch.sorted_sets[keys.members(job.id)] then batch.flush() end
  if not record.is_leased(job) then return 'already_ended' end -- an earlier part of this call has ended it
  local state, member = dependencies.imposed_end(job)
  if state then return yield_to_children.end_by_member(job, state, member) end
  if dependencies.count_pending(job.id) == 0 then return nil end
  if record.has(job, 'cancel_requested') then
    counters.add(job.queue, 'cancelled', 1)
    ending.end_job(job, STATE.cancelled)
    return 'cancelled'
  end
  become_waiting(job)
  return 'waiting'
end

return yield_to_children
