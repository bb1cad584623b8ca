-- Link imported jobs to their parents and dependencies, in steps: first link all jobs, then end the waits that are
-- over.
-- arguments: most (jobs)
-- returns:   {1 when there is more to do, number of awaited jobs that are unknown: the jobs that wait for them stay
--            waiting}
-- refusals:  none
-- flags: allow-oom
local commit = require 'commit'
local relink = require 'dependencies.relink'
local keys = require 'keys'

return function(_, most)
  local entries = redis.call('ZRANGE', keys.restoring(), 0, tonumber(most) - 1, 'WITHSCORES')
  local read = 0
  for i = 1, #entries, 2 do
    if entries[i + 1] ~= entries[2] or read > relink.LINKED_PER_CALL then break end -- one phase at a time
    read = read + relink.link(entries[i], tonumber(entries[i + 1]))
  end
  commit.run()
  return {redis.call('EXISTS', keys.restoring()), relink.unknown_awaited()}
end
