-- Delete jobs and everything stored with them.
-- arguments: ARGV[1] clock offset, [2] '1' to delete leased jobs too, [3] '1' to delete waiting jobs too; then ids
-- returns:   per job 'deleted' or a refusal
-- refusals:  unknown_job, already_ended, wrong_state (it is leased, or waiting)
-- flags: allow-oom
local STATE = require('constants').STATE
local EVENT = require('constants').EVENT
local batch = require 'batch'
local events = require 'events'
local ending = require 'jobs.ending'
local index = require 'jobs.index'
local record = require 'jobs.record'
local keys = require 'keys'
local wake_takers = require 'workers.wake_takers'

return function(arguments)
  local function delete(id)
    local job = record.load(id)
    if not job then return ending.missing(id) end
    if record.is_leased(job) and arguments[2] ~= '1' then return 'wrong_state' end
    if job.state == STATE.waiting and arguments[3] ~= '1' then return 'wrong_state' end
    index.leave(job)
    if not record.is_ended(job) then
      batch.increment(keys.queue(job.queue), 'bytes', -job.bytes)
      ending.notify_awaiting(job)
    end
    ending.remove(job)
    events.announce(EVENT.deleted, job, '')
    return 'deleted'
  end

  local answers = {}
  for i = 4, #arguments do table.insert(answers, delete(arguments[i])) end
  batch.flush()
  wake_takers.wake_all()
  ending.trim_histories()
  return answers
end
