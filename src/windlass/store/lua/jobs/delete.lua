-- Delete jobs and everything stored with them. A deleted job leaves no tombstone.
-- arguments: even_leased ('1': delete leased jobs too), even_waiting ('1': delete waiting jobs too); then ids
-- returns:   per job 'deleted' or a refusal
-- refusals:  unknown_job, already_ended, wrong_state (it is leased, or waiting)
-- flags: allow-oom
local STATE = require('constants').STATE
local EVENT = require('constants').EVENT
local batch = require 'batch'
local commit = require 'commit'
local events = require 'events'
local ending = require 'jobs.ending'
local index = require 'jobs.index'
local record = require 'jobs.record'
local keys = require 'keys'
local script = require 'script'

local function delete(id, even_leased, even_waiting)
  local job = record.load(id)
  if not job then return ending.missing(id) end
  if record.is_leased(job) and not even_leased then return 'wrong_state' end
  if job.state == STATE.waiting and not even_waiting then return 'wrong_state' end
  index.leave(job)
  if not record.is_ended(job) then
    batch.increment(keys.queue(job.queue), 'bytes', -record.total_bytes(job))
    ending.notify_awaiting(job)
  end
  record.unmark(job, 'leaves_tombstone')
  ending.remove(job)
  events.announce(EVENT.deleted, job, '')
  return 'deleted'
end

return function(arguments, even_leased, even_waiting)
  local answers = script.map(arguments, 4, 1, function(id)
    return delete(id, even_leased == '1', even_waiting == '1')
  end)
  commit.run()
  return answers
end
