-- Record heartbeats of workers, and compare the jobs that they hold with their leases.
-- arguments: ARGV[1] clock offset; then per worker: worker (16 bytes), '' or '=' + the ids of all jobs that it holds
-- returns:   per worker 'ok', 'stop' when it was asked to stop, or a refusal; if it has leases of jobs that it does not
--            hold, {'ok' or 'stop', {id, token, ... of these leases}}
-- refusals:  unknown_worker
-- flags: allow-oom
local clock = require 'clock'
local keys = require 'keys'
local reports = require 'leases.reports'

local function compare(worker, holds, noted)
  local found = reports.unclaimed_leases(worker, string.sub(holds, 2))
  reports.note_unclaimed(worker, noted, found)
  return found
end

return function(arguments)
  local answers = {}
  for i = 2, #arguments, 2 do
    local worker, holds = arguments[i], arguments[i + 1]
    local said = redis.call('HMGET', keys.worker(worker), 'beat_ms', 'stopping', 'unclaimed')
    local answer = not said[1] and 'unknown_worker' or said[2] and 'stop' or 'ok'
    if said[1] then
      redis.call('ZADD', keys.workers(), clock.now_ms + tonumber(said[1]), worker)
      local found = holds ~= '' and compare(worker, holds, said[3]) or {}
      if #found > 0 then answer = {answer, found} end
    end
    answers[#answers + 1] = answer
  end
  return answers
end
