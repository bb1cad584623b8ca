-- Create the jobs of occurrences that are due and advance their schedules, in one step. A second caller with the same
-- occurrence finds that another one is expected, and changes nothing.
-- arguments: ARGV[1] clock offset, [2] version of the limits; then per schedule: name, expected next occurrence,
--            expected revision, next occurrence after these (0: none), occurrences skipped, occurrences missed, overlap
--            'allow' | 'skip' | 'replace', number of jobs; then per job: planned instant, id + record, terms (see
--            enqueue)
-- returns:   per schedule the number of jobs created, or a refusal
-- refusals:  unknown_schedule, revision_conflict (it was changed, or another caller was faster), limits_changed
local batch = require 'batch'
local ending = require 'jobs.ending'
local keys = require 'keys'
local limits = require 'limits.limits'
local schedules = require 'schedules'
local wake_takers = require 'workers.wake_takers'

local function is_expected(name, next_at, revision)
  local fields = redis.call('HMGET', keys.schedule(name), 'next_at', 'revision')
  return tonumber(fields[1]) == next_at and tonumber(fields[2]) == revision and not schedules.is_paused(name)
end

return function(arguments)
  local at = 3
  local is_stale = limits.have_changed(arguments[2])

  local function fire(name, jobs, overlap)
    local made = 0
    for i = 1, jobs do
      local planned_at, entry, terms = tonumber(arguments[at + 3 * i - 3]), arguments[at + 3 * i - 2], arguments[at + 3 * i - 1]
      if not schedules.may_create(name, overlap) then
        redis.call('HINCRBY', keys.schedule(name), 'skipped', 1)
      else
        local _, is_made = schedules.create_job(name, planned_at, entry, terms)
        if is_made then made = made + 1 end
      end
    end
    return made
  end

  local answers = {}
  while at < #arguments do
    local name, next_at, skipped, missed = arguments[at], tonumber(arguments[at + 3]), tonumber(arguments[at + 4]), tonumber(arguments[at + 5])
    local overlap, jobs = arguments[at + 6], tonumber(arguments[at + 7])
    local is_mine = is_expected(name, tonumber(arguments[at + 1]), tonumber(arguments[at + 2]))
    at = at + 8
    if schedules.revision_of(name) == 0 then
      table.insert(answers, 'unknown_schedule')
    elseif is_stale then
      table.insert(answers, 'limits_changed')
    elseif not is_mine then
      table.insert(answers, 'revision_conflict')
    else
      if skipped > 0 then redis.call('HINCRBY', keys.schedule(name), 'skipped', skipped) end
      if missed > 0 then redis.call('HINCRBY', keys.schedule(name), 'missed', missed) end
      schedules.plan(name, next_at)
      table.insert(answers, fire(name, jobs, overlap))
    end
    at = at + 3 * jobs
  end
  batch.flush()
  wake_takers.wake_all()
  ending.trim_histories()
  return answers
end
