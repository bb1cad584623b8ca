-- Record heartbeats of workers, and compare the jobs that they hold with their leases.
-- arguments: per worker: worker (16 bytes), held ('', or '=' + the ids of all jobs that it holds)
-- returns:   per worker 'ok', 'stop' when it was asked to stop, or a refusal; if it has leases of jobs that it does not
--            hold, {'ok' or 'stop', {id, token, ... of these leases}}
-- refusals:  unknown_worker
-- flags: allow-oom
local clock = require 'clock'
local keys = require 'keys'
local reports = require 'leases.reports'
local script = require 'script'

local function compare(worker, held, noted)
  local found = reports.unclaimed_leases(worker, string.sub(held, 2))
  reports.note_unclaimed(worker, noted, found)
  return found
end

local function beat(worker, held)
  local beat_ms, stopping, noted = unpack(redis.call('HMGET', keys.worker(worker), 'beat_ms', 'stopping', 'unclaimed'))
  if not beat_ms then return 'unknown_worker' end
  redis.call('ZADD', keys.workers(), clock.now_ms + tonumber(beat_ms), worker)
  local answer = stopping and 'stop' or 'ok'
  local found = held ~= '' and compare(worker, held, noted) or {}
  return #found > 0 and {answer, found} or answer
end

return function(arguments)
  return script.map(arguments, 2, 2, beat)
end
