-- Create the jobs of occurrences that are due and advance their schedules, in one step. A second caller with the same
-- occurrence finds that another one is expected, and changes nothing.
-- arguments: ARGV[1] clock offset, [2] version of the limits; then per schedule: name, expected next occurrence,
--            expected revision, next occurrence after these (0: none), occurrences skipped, occurrences missed, overlap
--            'allow' | 'skip' | 'replace', number of jobs; then per job: planned instant, id + record, terms (see
--            enqueue)
-- returns:   per schedule the number of jobs created, or a refusal
-- refusals:  unknown_schedule, revision_conflict (it was changed, or another caller was faster), limits_changed
-- uses: keys, batch, limits, wakeups, ending, schedules, wake_takers
local at = 3
local is_stale = have_limits_changed(ARGV[2])

local function is_expected(name, next_at, revision)
  local fields = redis.call('HMGET', schedule_key(name), 'next_at', 'revision')
  return tonumber(fields[1]) == next_at and tonumber(fields[2]) == revision and not is_paused(name)
end

local function fire(name, jobs, overlap)
  local made = 0
  for i = 1, jobs do
    local planned_at, entry, terms = tonumber(ARGV[at + 3 * i - 3]), ARGV[at + 3 * i - 2], ARGV[at + 3 * i - 1]
    if not makes_way(name, overlap) then
      redis.call('HINCRBY', schedule_key(name), 'skipped', 1)
    else
      local _, is_made = make_job(name, planned_at, entry, terms)
      if is_made then made = made + 1 end
    end
  end
  return made
end

local answers = {}
while at < #ARGV do
  local name, next_at, skipped, missed = ARGV[at], tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])
  local overlap, jobs = ARGV[at + 6], tonumber(ARGV[at + 7])
  local is_mine = is_expected(name, tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]))
  at = at + 8
  if revision_of_schedule(name) == 0 then
    table.insert(answers, 'unknown_schedule')
  elseif is_stale then
    table.insert(answers, 'limits_changed')
  elseif not is_mine then
    table.insert(answers, 'revision_conflict')
  else
    if skipped > 0 then redis.call('HINCRBY', schedule_key(name), 'skipped', skipped) end
    if missed > 0 then redis.call('HINCRBY', schedule_key(name), 'missed', missed) end
    plan_schedule(name, next_at)
    table.insert(answers, fire(name, jobs, overlap))
  end
  at = at + 3 * jobs
end
flush()
ring_all()
trim_histories()
return answers
