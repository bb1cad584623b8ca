-- Change jobs that have not started (on request, jobs in any state): name, priority, run_at, payload, limits, repeat
-- rule, attempts.
-- arguments: ARGV[1] clock offset, [2] version of the limits; then per job: id, revision guard (0: none), '1' to accept
--            any state, name ('': unchanged), priority ('': unchanged), run_at ('': unchanged), payload codec
--            ('': payload unchanged), payload, '1' when limits follow, limits joined by \2, repeat rule ('': unchanged,
--            '-': none), attempts that count as made ('': unchanged)
-- returns:   per job {revision, state} or a refusal
-- refusals:  unknown_job, already_ended, wrong_state, revision_conflict, limits_changed (match again)
-- flags: allow-oom
local STATE = require('constants').STATE
local batch = require 'batch'
local clock = require 'clock'
local amend = require 'jobs.amend'
local ending = require 'jobs.ending'
local index = require 'jobs.index'
local record = require 'jobs.record'
local limits = require 'limits.limits'
local wake_takers = require 'workers.wake_takers'

-- A new run_at of a running retake job moves the deadline of its lease.
local function move_deadline(job)
  if job.ready_at > clock.now_ms then record.unmark(job, 'retakeable') end
  job.deadline = job.ready_at
  index.enter_running(job)
end

local function edit(id, guard, any_state, name, priority, run_at, codec, payload, has_limits, job_limits, rule, attempt)
  local job = record.load(id)
  if not job then return ending.missing(id) end
  local is_pending = job.state <= STATE.waiting
  if not is_pending and any_state ~= '1' then return 'wrong_state' end
  if guard ~= '0' and tonumber(guard) ~= job.revision then return 'revision_conflict' end
  if codec == '' then payload = record.payload_of(job) end
  if is_pending then index.leave(job) elseif record.has(job, 'retakeable') then index.leave_lane(job) end
  amend.apply(job, {name = name, priority = priority, run_at = run_at, attempt = attempt, rule = rule, codec = codec,
    limits = has_limits == '1' and job_limits})
  if job.state == STATE.running and record.has(job, 'retake') and run_at ~= '' and job.deadline > 0 then move_deadline(job) end
  if is_pending and job.state ~= STATE.waiting then job.state = index.state_by_time(job) end
  if is_pending then index.enter(job) elseif record.has(job, 'retakeable') then index.enter_lane(job) end
  record.rewrite(job, payload)
  return {job.revision, job.state}
end

return function(arguments)
  local answers = {}
  local is_stale = limits.have_changed(arguments[2])
  for i = 3, #arguments, 12 do
    table.insert(answers, is_stale and 'limits_changed' or edit(unpack(arguments, i, i + 11)))
  end
  batch.flush()
  wake_takers.wake_all()
  return answers
end
