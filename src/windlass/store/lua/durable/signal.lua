-- Send signals to jobs. A suspended job that waits for the signal continues with it; else the signal is kept.
-- arguments: per signal: id, name, request_id (16 bytes; '': none), value (with its codec), occurrence (planned instant
--            of a repeating job, 0 of another; '': any), is_one_time (1: the request id is remembered with the job)
-- returns:   per signal 'received', 'kept', 'repeated' (this request id was seen before) or a refusal
-- refusals:  unknown_job, already_ended (also: another occurrence), wrong_state (a group), mailbox_full, steps_full
local STATE = require('constants').STATE
local STEP_KIND = require('constants').STEP_KIND
local STEP_STATUS = require('constants').STEP_STATUS
local commit = require 'commit'
local mailbox = require 'durable.mailbox'
local steps = require 'durable.steps'
local waits = require 'durable.waits'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local repeat_rule = require 'jobs.repeat_rule'
local script = require 'script'

-- Return the open wait of a suspended job for a signal, or nil.
local function find_wait(job, signal)
  if job.state ~= STATE.suspended then return nil end
  for _, wait in ipairs(waits.open_waits(job)) do
    local step = wait.step
    local is_open = step.kind == STEP_KIND.signal and step.status == STEP_STATUS.waiting
    if is_open and step.detail == signal then return wait end
  end
  return nil
end

local function is_occurrence(job, occurrence)
  return occurrence == '' or (record.has(job, 'repeats') and repeat_rule.of(job) or 0) == tonumber(occurrence)
end

local function send(id, name, request_id, value, occurrence, is_one_time)
  local job = record.load(id)
  if not job then return ending.missing(id) end
  if record.is_ended(job) or not is_occurrence(job, occurrence) then return 'already_ended' end
  if record.has(job, 'joins') then return 'wrong_state' end
  if mailbox.is_repeated(job, request_id) then return 'repeated' end
  local wait = find_wait(job, name)
  local refused = not wait and mailbox.is_full(job) and 'mailbox_full'
    or wait and mailbox.answer(job, wait.name, name, wait.step, value)
  if refused then return refused end
  steps.mark_durable(job)
  mailbox.remember(job, request_id, is_one_time == '1')
  if not wait then
    mailbox.keep(job, name, value)
    return 'kept'
  end
  waits.wake(job)
  return 'received'
end

return function(arguments)
  local answers = script.map(arguments, 2, 6, send)
  commit.run()
  return answers
end
