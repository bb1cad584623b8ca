-- End runs with content from the caller, in one step: finish, fail, or run again at another time.
-- arguments: ARGV[1] clock offset, [2] version of the limits; then per job: id, token (0: the current holder's),
--            revision guard (0: none), conditions (letters: a accept any state, p only while its parent waits, k keep
--            members that have ended), 'finish' | 'again' | 'fail', run_at ('': none), delay in ms ('': none), name
--            ('': unchanged), unique key ('': unchanged), priority ('': unchanged), payload codec ('': payload
--            unchanged), payload, '1' when limits follow, limits joined by \2, repeat rule ('': unchanged, '-': none),
--            attempts that count as made, reason
-- returns:   per job 'finished', 'waiting' (it yields to its children), 'again', 'failed', 'cancelled' or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state, revision_conflict, parent_state, unsettled,
--            unique_conflict, limits_changed (match again)
-- flags: allow-oom
local batch = require 'batch'
local clock = require 'clock'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local complete = require 'leases.complete'
local reports = require 'leases.reports'
local limits = require 'limits.limits'
local wake_takers = require 'workers.wake_takers'

local function find_job(id, token, in_any_state)
  local job, refused = reports.find_held(id, token)
  if job or not in_any_state or token > 0 then return job, refused end
  job = record.load(id)
  if job and record.has(job, 'in_history') then return nil, 'already_ended' end
  return job, not job and ending.missing(id) or nil
end

local function time_of(run_at, delay)
  if delay == '' then return run_at end
  local at = clock.now_ms + tonumber(delay)
  return at - at % 1000
end

local function conclude(id, token, guard, conditions, then_what, run_at, delay, name, unique, priority, codec, payload,
    has_limits, job_limits, rule, attempt, reason)
  local job, refused = find_job(id, tonumber(token), string.find(conditions, 'a', 1, true))
  if not job then return refused end
  refused = complete.refusal_of(job, {guard = tonumber(guard), if_parent_waits = string.find(conditions, 'p', 1, true)})
  if refused then return refused end
  local content = {name = name, unique = unique, priority = priority, run_at = time_of(run_at, delay), codec = codec,
    payload = payload, limits = has_limits == '1' and job_limits, rule = rule, attempt = attempt}
  if then_what == 'finish' then return complete.finish(job, content) end
  if then_what == 'fail' then
    if record.is_ended(job) then return 'already_ended' end
    complete.write_content(job, content)
    return complete.fail(job, reason)
  end
  if record.has(job, 'cancel_requested') and not string.find(conditions, 'a', 1, true) then return complete.cancel_instead(job) end
  return complete.run_again(job, content, string.find(conditions, 'k', 1, true))
end

return function(arguments)
  local answers = {}
  local is_stale = limits.have_changed(arguments[2])
  for i = 3, #arguments, 17 do
    table.insert(answers, is_stale and 'limits_changed' or conclude(unpack(arguments, i, i + 16)))
  end
  batch.flush()
  wake_takers.wake_all()
  ending.trim_histories()
  return answers
end
