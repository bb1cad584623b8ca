-- Link imported jobs to their parents and dependencies, in steps: first link all jobs, then end the waits that are
-- over.
-- arguments: ARGV[1] clock offset, [2] most jobs
-- returns:   {1 when there is more to do, number of awaited jobs that are unknown: the jobs that wait for them stay
--            waiting}
-- refusals:  none
-- flags: allow-oom
local batch = require 'batch'
local relink = require 'dependencies.relink'
local ending = require 'jobs.ending'
local keys = require 'keys'
local wake_takers = require 'workers.wake_takers'

return function(arguments)
  local entries = redis.call('ZRANGE', keys.restoring(), 0, tonumber(arguments[2]) - 1, 'WITHSCORES')
  local looked_at = 0
  for i = 1, #entries, 2 do
    if entries[i + 1] ~= entries[2] or looked_at > relink.LINKED_PER_CALL then break end -- one phase at a time
    looked_at = looked_at + relink.link(entries[i], tonumber(entries[i + 1]))
  end
  batch.flush()
  wake_takers.wake_all()
  ending.trim_histories()
  return {redis.call('EXISTS', keys.restoring()), relink.unknown_awaited()}
end
