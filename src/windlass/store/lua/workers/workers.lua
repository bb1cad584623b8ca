-- Return a page of registered workers, with the jobs that each holds.
-- arguments: ARGV[1] clock offset, [2] from, [3] most, [4] most jobs per worker, [5...] these workers instead of a page
-- returns:   per worker {worker, silent at, started at, description, jobs held, {id, since, ...}, stop requested at
--            (0: not), heartbeat interval in ms}
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'

return function(arguments)
  local from, most = tonumber(arguments[2]), tonumber(arguments[3])
  local answers = {}
  local page = {}
  for i = 5, #arguments do
    table.insert(page, arguments[i])
    table.insert(page, redis.call('ZSCORE', keys.workers(), arguments[i]) or 0)
  end
  if #arguments == 4 then page = redis.call('ZRANGE', keys.workers(), from, from + most - 1, 'WITHSCORES') end
  for i = 1, #page, 2 do
    local worker = page[i]
    local said = redis.call('HMGET', keys.worker(worker), 'started_at', 'description', 'stopping', 'beat_ms')
    local jobs = redis.call('ZRANGE', keys.worker_jobs(worker), 0, tonumber(arguments[4]) - 1, 'WITHSCORES')
    table.insert(answers, {worker, tonumber(page[i + 1]), tonumber(said[1] or 0), said[2] or '',
      redis.call('ZCARD', keys.worker_jobs(worker)), jobs, tonumber(said[3] or 0), tonumber(said[4] or 0)})
  end
  return answers
end
