-- Link imported jobs to their parents and dependencies, in steps: first link all jobs, then end the waits that are
-- over. Afterwards no lease of the deployment that the jobs come from is valid here.
-- arguments: most (jobs)
-- returns:   {1 when there is more to do, number of awaited jobs that are unknown: the jobs that wait for them stay
--            waiting}
-- refusals:  none
-- flags: allow-oom
local commit = require 'commit'
local relink = require 'dependencies.relink'
local clock = require 'clock'
local keys = require 'keys'

-- More than a deployment issues. The counter stays below 10^14, which Lua writes digit by digit, until the year 2168.
local TOKENS_PER_MS = 16

-- The counter of each engine begins at 0: a worker of a lost engine could report with the token of a lease that another
-- worker has now.
local function outdate_leases()
  local least = clock.now_ms * TOKENS_PER_MS
  if tonumber(redis.call('GET', keys.token()) or 0) < least then
    redis.call('SET', keys.token(), string.format('%d', least))
  end
end

return function(_, most)
  outdate_leases()
  local entries = redis.call('ZRANGE', keys.restoring(), 0, tonumber(most) - 1, 'WITHSCORES')
  local read = 0
  for i = 1, #entries, 2 do
    if entries[i + 1] ~= entries[2] or read > relink.LINKED_PER_CALL then break end -- one phase at a time
    read = read + relink.link(entries[i], tonumber(entries[i + 1]))
  end
  commit.run()
  return {redis.call('EXISTS', keys.restoring()), relink.unknown_awaited()}
end
