-- Change jobs that have not started (on request, jobs in any state): name, priority, run_at, payload, limits, repeat
-- rule, attempts.
-- arguments: version (of the limits); then per job: id, guard (revision; 0: none), any_state ('1': accept any state),
--            name ('': unchanged), priority ('': unchanged), run_at ('': unchanged), codec (of the payload;
--            '': unchanged), payload, has_limits ('1': limits follow), limits (joined by \2), has_tags ('1': tags
--            follow), tags (all of them, as stored), rule (for repeating; '': unchanged, '-': none), attempt (attempts
--            that count as made; '': unchanged), token (only while this lease holds; 0: always)
-- returns:   per job {revision, state} or a refusal
-- refusals:  unknown_job, already_ended, wrong_state, stale_lease, revision_conflict, limits_changed (match again)
-- flags: allow-oom
local STATE = require('constants').STATE
local clock = require 'clock'
local commit = require 'commit'
local amend = require 'jobs.amend'
local ending = require 'jobs.ending'
local index = require 'jobs.index'
local job_tags = require 'jobs.job_tags'
local record = require 'jobs.record'
local limits = require 'limits.limits'
local script = require 'script'

-- A new run_at of a running retake job moves the deadline of its lease.
local function move_deadline(job)
  if job.ready_at > clock.now_ms then record.unmark(job, 'retakeable') end
  job.deadline = job.ready_at
  index.enter_running(job)
end

local function edit(id, guard, any_state, name, priority, run_at, codec, payload, has_limits, job_limits, has_tags,
    tags, rule, attempt, token)
  local job = record.load(id)
  if not job then return ending.missing(id) end
  local is_pending = record.is_pending(job)
  if not is_pending and any_state ~= '1' then return 'wrong_state' end
  -- Only its own waits decide when a job with steps continues.
  if run_at ~= '' and record.has(job, 'needs_steps') then return 'wrong_state' end
  if token ~= '0' and not (record.is_leased(job) and tonumber(token) == job.token) then return 'stale_lease' end
  if guard ~= '0' and tonumber(guard) ~= job.revision then return 'revision_conflict' end
  if codec ~= '' and has_tags ~= '1' and job_tags.depend_on_payload(job) then return 'limits_changed' end
  if codec == '' then payload = record.payload_of(job) end
  if is_pending then index.leave(job) elseif record.has(job, 'retakeable') then index.leave_lane(job) end
  amend.apply(job, {name = name, priority = priority, run_at = run_at, attempt = attempt, rule = rule, codec = codec,
    limits = has_limits == '1' and job_limits, tags = has_tags == '1' and tags})
  local is_retake = job.state == STATE.running and record.has(job, 'retake')
  if is_retake and run_at ~= '' and job.deadline > 0 then move_deadline(job) end
  if is_pending and job.state ~= STATE.waiting then job.state = index.state_by_time(job) end
  if is_pending then index.enter(job) elseif record.has(job, 'retakeable') then index.enter_lane(job) end
  record.rewrite(job, payload)
  return {job.revision, job.state}
end

return function(arguments, version)
  local is_stale = limits.have_changed(version)
  local answers = script.map(arguments, 3, 15, function(...) return is_stale and 'limits_changed' or edit(...) end)
  commit.run()
  return answers
end
