-- The janitor's scan of queue names: forget queues that hold nothing and were never configured, trim histories that
-- were made smaller or switched off, and return the queues whose waiting jobs must be relaned.
-- arguments: cursor ('0' to start), count (about how many)
-- returns:   {next cursor ('0' at the end), {queue to relane, ...}, queues forgotten}
-- refusals:  none
-- flags: allow-oom
local ending = require 'jobs.ending'
local keys = require 'keys'
local configuration = require 'queues.configuration'

local INDEXES = {'ready', 'laned', 'scheduled', 'waiting', 'running', 'finished', 'failed', 'cancelled', 'history'}

local TRIMMED_PER_QUEUE = 50

local function is_configured(queue)
  for _, value in ipairs(redis.call('HMGET', keys.queue(queue), unpack(configuration.FIELDS))) do
    if value then return true end
  end
  return configuration.of(queue).is_paused or redis.call('EXISTS', keys.pauses(queue), keys.weights(queue)) > 0
end

local function is_empty(queue)
  local indexes = {}
  for i, index in ipairs(INDEXES) do indexes[i] = keys.of_queue(index, queue) end
  return redis.call('EXISTS', unpack(indexes)) == 0
end

return function(_, cursor, count)
  local page = redis.call('SSCAN', keys.queues(), cursor, 'COUNT', count)
  local to_relane, forgotten = {}, 0
  for _, queue in ipairs(page[2]) do
    ending.trim_wanted[queue] = TRIMMED_PER_QUEUE
    if is_empty(queue) and not is_configured(queue) then
      redis.call('DEL', keys.queue(queue), keys.turns(queue))
      redis.call('SREM', keys.queues(), queue)
      forgotten = forgotten + 1
    elseif configuration.of(queue).is_relaning then
      table.insert(to_relane, queue)
    end
  end
  ending.trim_histories()
  return {page[1], to_relane, forgotten}
end
