-- Create the jobs of occurrences that are due and advance their schedules, in one step. A second caller with the same
-- occurrence finds that another one is expected, and changes nothing.
-- arguments: version (of the limits); then per schedule: name, expected_at (its next occurrence), revision (as
--            expected), next_at (occurrence after these; 0: none), skipped (occurrences), missed (occurrences), overlap
--            ('allow' | 'skip' | 'replace'), jobs (how many); then per job: planned_at, entry (id + record), terms (see
--            enqueue)
-- returns:   per schedule the number of jobs created, or a refusal
-- refusals:  unknown_schedule, revision_conflict (it was changed, or another caller was faster), limits_changed
local commit = require 'commit'
local keys = require 'keys'
local limits = require 'limits.limits'
local schedules = require 'schedules'

local function is_expected(name, next_at, revision)
  local fields = redis.call('HMGET', keys.schedule(name), 'next_at', 'revision')
  return tonumber(fields[1]) == next_at and tonumber(fields[2]) == revision and not schedules.is_paused(name)
end

local function refusal_of(name, expected_at, revision, is_stale)
  if schedules.revision_of(name) == 0 then return 'unknown_schedule' end
  if is_stale then return 'limits_changed' end
  if not is_expected(name, expected_at, revision) then return 'revision_conflict' end
  return nil
end

local function count(name, field, occurrences)
  if occurrences > 0 then redis.call('HINCRBY', keys.schedule(name), field, occurrences) end
end

-- Create the jobs that the arguments list from `first` to `last`. Returns how many were created.
local function create_jobs(name, overlap, arguments, first, last)
  local created = 0
  for i = first, last, 3 do
    local planned_at, entry, terms = unpack(arguments, i, i + 2)
    if not schedules.may_create(name, overlap) then
      count(name, 'skipped', 1)
    else
      local _, is_made = schedules.create_job(name, tonumber(planned_at), entry, terms)
      if is_made then created = created + 1 end
    end
  end
  return created
end

return function(arguments, version)
  local is_stale = limits.have_changed(version)
  local answers, at = {}, 3
  while at < #arguments do
    local name, expected_at, revision, next_at, skipped, missed, overlap, jobs = unpack(arguments, at, at + 7)
    local first = at + 8
    at = first + 3 * tonumber(jobs)
    local answer = refusal_of(name, tonumber(expected_at), tonumber(revision), is_stale)
    if not answer then
      count(name, 'skipped', tonumber(skipped))
      count(name, 'missed', tonumber(missed))
      schedules.plan(name, tonumber(next_at))
      answer = create_jobs(name, overlap, arguments, first, at - 1)
    end
    answers[#answers + 1] = answer
  end
  commit.run()
  return answers
end
