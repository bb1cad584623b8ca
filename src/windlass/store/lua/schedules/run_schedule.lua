-- Create the job of a schedule now, independently of its occurrences and of running jobs.
-- arguments: ARGV[1] clock offset, [2] name, [3] expected revision, [4] instant, [5] id + record, [6] terms (see
--            enqueue), [7] version of the limits
-- returns:   {status, id, revision} as in enqueue
-- refusals:  unknown_schedule, revision_conflict, limits_changed; those of enqueue as status
local batch = require 'batch'
local ended_ids = require 'jobs.ended_ids'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local limits = require 'limits.limits'
local schedules = require 'schedules'
local wake_takers = require 'workers.wake_takers'

return function(arguments)
  local name = arguments[2]
  local revision = schedules.revision_of(name)
  if revision == 0 then return 'unknown_schedule' end
  if revision ~= tonumber(arguments[3]) then return 'revision_conflict' end
  if limits.have_changed(arguments[7]) then return 'limits_changed' end
  -- A call that is repeated after a lost answer has the same id.
  local id = string.sub(arguments[5], 1, 16)
  local known = record.load(id)
  if known then return {'existing', id, known.revision} end
  if ended_ids.has(id) then return {'ended', id, 0} end
  local answer = schedules.create_job(name, tonumber(arguments[4]), arguments[5], arguments[6])
  batch.flush()
  wake_takers.wake_all()
  ending.trim_histories()
  return answer
end
