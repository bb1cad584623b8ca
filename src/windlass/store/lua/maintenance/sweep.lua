-- The janitor's scan of queue names: forget queues that hold nothing and were never configured, trim histories that
-- were made smaller or switched off, and return the queues whose waiting jobs must be relaned.
-- arguments: ARGV[1] clock offset, [2] cursor ('0' to start), [3] about how many
-- returns:   {next cursor ('0' at the end), {queue to relane, ...}, queues forgotten}
-- refusals:  none
-- flags: allow-oom
-- uses: keys, config, ending
local PLACES = {'ready', 'laned', 'scheduled', 'waiting', 'running', 'finished', 'failed', 'cancelled', 'history'}
local page = redis.call('SSCAN', P .. 'queues', ARGV[2], 'COUNT', ARGV[3])
local to_relane, forgotten = {}, 0
local TRIMMED_PER_QUEUE = 50

local function is_configured(queue)
  for _, value in ipairs(redis.call('HMGET', queue_key('q', queue), unpack(CONFIG_FIELDS))) do
    if value then return true end
  end
  return config_of(queue).is_paused or redis.call('EXISTS', queue_key('pauses', queue), queue_key('weights', queue)) > 0
end

for _, queue in ipairs(page[2]) do
  trim_wanted[queue] = TRIMMED_PER_QUEUE
  local keys = {}
  for i, place in ipairs(PLACES) do keys[i] = queue_key(place, queue) end
  if redis.call('EXISTS', unpack(keys)) == 0 and not is_configured(queue) then
    redis.call('DEL', queue_key('q', queue), queue_key('turns', queue))
    redis.call('SREM', P .. 'queues', queue)
    forgotten = forgotten + 1
  elseif config_of(queue).is_relaning then
    table.insert(to_relane, queue)
  end
end
trim_histories()
return {page[1], to_relane, forgotten}
