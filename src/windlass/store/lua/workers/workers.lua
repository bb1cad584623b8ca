-- Return a page of registered workers, with the jobs that each holds.
-- arguments: from, most, most_jobs (per worker); then workers, instead of a page
-- returns:   per worker {worker, silent at, started at, description, jobs held, {id, since, ...}, stop requested at
--            (0: not), heartbeat interval in ms, \0 + its names joined by \0 + \0 ('': not given)}
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'
local script = require 'script'

local WORKERS_AT = 5

local function describe(worker, silent_at, most_jobs)
  local started_at, description, stopping_at, beat_ms, names =
    unpack(redis.call('HMGET', keys.worker(worker), 'started_at', 'description', 'stopping', 'beat_ms', 'names'))
  local jobs = redis.call('ZRANGE', keys.worker_jobs(worker), 0, most_jobs - 1, 'WITHSCORES')
  return {
    worker, tonumber(silent_at), tonumber(started_at or 0), description or '',
    redis.call('ZCARD', keys.worker_jobs(worker)), jobs, tonumber(stopping_at or 0), tonumber(beat_ms or 0),
    names or '',
  }
end

return function(arguments, from, most, most_jobs)
  from, most, most_jobs = tonumber(from), tonumber(most), tonumber(most_jobs)
  if #arguments >= WORKERS_AT then
    return script.map(arguments, WORKERS_AT, 1, function(worker)
      return describe(worker, redis.call('ZSCORE', keys.workers(), worker) or 0, most_jobs)
    end)
  end
  local page = redis.call('ZRANGE', keys.workers(), from, from + most - 1, 'WITHSCORES')
  return script.map(page, 1, 2, function(worker, silent_at) return describe(worker, silent_at, most_jobs) end)
end
