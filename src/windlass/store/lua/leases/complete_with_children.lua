-- End runs with content from the caller, in one step: finish, fail, or run again at another time.
-- arguments: version (of the limits); then per job: id, token (0: the current holder's), guard (revision; 0: none),
--            conditions (letters: a accept any state, p only while its parent waits, k keep members that have ended),
--            outcome ('finish' | 'again' | 'fail'), run_at ('': none), delay_ms ('': none), name ('': unchanged),
--            unique (key; '': unchanged), priority ('': unchanged), codec (of the payload; '': unchanged), payload,
--            has_limits ('1': limits follow), limits (joined by \2), has_tags ('1': tags follow), tags (all of
--            them, as stored), rule (for repeating; '': unchanged, '-': none), attempt (attempts that count as made),
--            reason
-- returns:   per job 'finished', 'waiting' (it yields to its children), 'again', 'failed', 'cancelled' or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state, revision_conflict, parent_state, unsettled,
--            unique_conflict, limits_changed (match again)
-- flags: allow-oom
local clock = require 'clock'
local commit = require 'commit'
local ending = require 'jobs.ending'
local job_tags = require 'jobs.job_tags'
local record = require 'jobs.record'
local complete = require 'leases.complete'
local reports = require 'leases.reports'
local limits = require 'limits.limits'
local script = require 'script'

local function find_job(id, token, in_any_state)
  local job, refused = reports.find_held(id, token)
  if job or not in_any_state or token > 0 then return job, refused end
  job = record.load(id)
  if job and record.has(job, 'in_history') then return nil, 'already_ended' end
  return job, not job and ending.missing(id) or nil
end

local function time_of(run_at, delay_ms)
  if delay_ms == '' then return run_at end
  local at = clock.now_ms + tonumber(delay_ms)
  return at - at % 1000
end

local function fail(job, content, reason)
  if record.is_ended(job) then return 'already_ended' end
  complete.write_content(job, content)
  return complete.fail(job, reason)
end

local function run_again(job, content, in_any_state, keeps_members)
  if record.has(job, 'cancel_requested') and not in_any_state then return complete.cancel_instead(job) end
  return complete.run_again(job, content, keeps_members)
end

local function complete_job(id, token, guard, conditions, outcome, run_at, delay_ms, name, unique, priority, codec,
    payload, has_limits, job_limits, has_tags, tags, rule, attempt, reason)
  local function has_condition(letter) return string.find(conditions, letter, 1, true) end
  local job, refused = find_job(id, tonumber(token), has_condition('a'))
  if not job then return refused end
  refused = complete.refusal_of(job, {guard = tonumber(guard), if_parent_waits = has_condition('p')})
  if refused then return refused end
  if codec ~= '' and has_tags ~= '1' and job_tags.depend_on_payload(job) then return 'limits_changed' end
  local content = {name = name, unique = unique, priority = priority, run_at = time_of(run_at, delay_ms), codec = codec,
    payload = payload, limits = has_limits == '1' and job_limits, tags = has_tags == '1' and tags, rule = rule,
    attempt = attempt}
  if outcome == 'finish' then return complete.finish(job, content) end
  if outcome == 'fail' then return fail(job, content, reason) end
  return run_again(job, content, has_condition('a'), has_condition('k'))
end

return function(arguments, version)
  local is_stale = limits.have_changed(version)
  local answers = script.map(arguments, 3, 19, function(...)
    return is_stale and 'limits_changed' or complete_job(...)
  end)
  commit.run()
  return answers
end
