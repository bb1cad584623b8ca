-- Create the job of a schedule now, independently of its occurrences and of running jobs.
-- arguments: name, expected_revision, planned_at, entry (id + record), terms (see enqueue), version (of the limits)
-- returns:   {status, id, revision} as in enqueue
-- refusals:  unknown_schedule, revision_conflict, limits_changed; those of enqueue as status
local commit = require 'commit'
local ended_ids = require 'jobs.ended_ids'
local record = require 'jobs.record'
local limits = require 'limits.limits'
local schedules = require 'schedules'

return function(_, name, expected_revision, planned_at, entry, terms, version)
  local revision = schedules.revision_of(name)
  if revision == 0 then return 'unknown_schedule' end
  if revision ~= tonumber(expected_revision) then return 'revision_conflict' end
  if limits.have_changed(version) then return 'limits_changed' end
  -- A call that is repeated after a lost answer has the same id.
  local id = string.sub(entry, 1, 16)
  local known = record.load(id)
  if known then return {'existing', id, known.revision} end
  if ended_ids.has(id) then return {'ended', id, 0} end
  local answer = schedules.create_job(name, tonumber(planned_at), entry, terms)
  commit.run()
  return answer
end
