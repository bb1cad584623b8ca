-- What a queue holds, and its removal.
local clock = require 'clock'
local keys = require 'keys'
local task_figures = require 'workers.task_figures'

local contents = {}

local INDEXES = {
  'ready', 'laned', 'scheduled', 'waiting', 'suspended', 'running', 'finished', 'failed', 'cancelled', 'history',
}
local HOURS = 48 -- of counters (counters.lua)

function contents.is_empty(queue)
  local indexes = {}
  for i, kind in ipairs(INDEXES) do indexes[i] = keys.of_queue(kind, queue) end
  return redis.call('EXISTS', unpack(indexes)) == 0
end

-- Return the number of jobs whose records a queue holds, in any state.
function contents.count(queue)
  local jobs = 0
  for _, kind in ipairs(INDEXES) do jobs = jobs + redis.call('ZCARD', keys.of_queue(kind, queue)) end
  return jobs
end

function contents.hour_keys(queue)
  local found, last = {}, math.floor(clock.now_ms / 3600000)
  for back = 0, HOURS do found[#found + 1] = keys.counters(queue, last - back) end
  return found
end

-- Forget an empty queue. Its counters stay until they expire.
function contents.forget(queue)
  redis.call('DEL', keys.queue(queue), keys.turns(queue))
  redis.call('SREM', keys.queues(), queue)
end

-- Remove everything of an empty queue but the registrations of takers that wait for its next job.
function contents.remove(queue)
  contents.forget(queue)
  redis.call('DEL', keys.pauses(queue), keys.weights(queue), unpack(contents.hour_keys(queue)))
  task_figures.forget_queue(queue)
end

return contents
