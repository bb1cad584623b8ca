-- Take the jobs back from a worker whose connection dropped, a bounded number per call, unless it has connected again
-- or has gone. Each job spends its attempt, because one of them may have ended the worker.
-- arguments: worker (16 bytes), connection (its id), most (jobs), reason (of the end of the attempts), problem (their
--            error with its codec)
-- returns:   {jobs taken back, 1 when there is nothing left to do, 0 when the worker may hold more}
-- refusals:  none
-- flags: allow-oom
local commit = require 'commit'
local keys = require 'keys'
local silent_workers = require 'workers.silent_workers'

return function(_, worker, connection, most, reason, problem)
  if redis.call('HGET', keys.worker(worker), 'connection') ~= connection then return {0, 1} end
  local returned = silent_workers.recover(worker, tonumber(most), reason, problem)
  commit.run()
  return {returned, 1 - redis.call('EXISTS', keys.worker(worker))}
end
