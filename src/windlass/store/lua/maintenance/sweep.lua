-- The janitor's scan of queue names: forget queues that hold nothing and were never configured, trim histories that
-- were made smaller or switched off, set timers of suspended jobs that an earlier version has reset, and return the
-- queues whose waiting jobs must be relaned.
-- arguments: cursor ('0' to start), count (about how many)
-- returns:   {next cursor ('0' at the end), {queue to relane, ...}, queues forgotten}
-- refusals:  none
-- flags: allow-oom
local ending = require 'jobs.ending'
local index = require 'jobs.index'
local keys = require 'keys'
local configuration = require 'queues.configuration'
local contents = require 'queues.contents'

local TRIMMED_PER_QUEUE = 50

local function is_configured(queue)
  for _, value in ipairs(redis.call('HMGET', keys.queue(queue), 'index', unpack(configuration.FIELDS))) do
    if value then return true end
  end
  return configuration.of(queue).is_paused or redis.call('EXISTS', keys.pauses(queue), keys.weights(queue)) > 0
end

local function restore_timer(queue)
  local first = redis.call('ZRANGE', keys.suspended(queue), 0, 0, 'WITHSCORES')
  local at = tonumber(first[2] or math.huge)
  if at < math.huge then index.lower_timer('due', queue, at) end
end

return function(_, cursor, count)
  local page = redis.call('SSCAN', keys.queues(), cursor, 'COUNT', count)
  local to_relane, forgotten = {}, 0
  for _, queue in ipairs(page[2]) do
    ending.trim_wanted[queue] = TRIMMED_PER_QUEUE
    restore_timer(queue)
    if contents.is_empty(queue) and not is_configured(queue) then
      contents.forget(queue)
      forgotten = forgotten + 1
    elseif configuration.of(queue).is_relaning then
      table.insert(to_relane, queue)
    end
  end
  ending.trim_histories()
  return {page[1], to_relane, forgotten}
end
