-- Set properties of a queue, and return all of them. relane moves waiting jobs that belong elsewhere now, in steps.
-- arguments: queue; then per property: field, value ('': reset to the default). Without properties it only reads
-- returns:   {field, value, ...} as stored
-- refusals:  none
-- flags: allow-oom
local keys = require 'keys'
local queue_index = require 'queues.queue_index'

local PLACEMENT = {name_lanes = true, aging_ms = true, fair_share = true}

local function set_property(queue, field, value)
  local key = keys.queue(queue)
  local before = redis.call('HGET', key, field) or ''
  if value == '' then redis.call('HDEL', key, field) else redis.call('HSET', key, field, value) end
  if PLACEMENT[field] and before ~= value then redis.call('HSET', key, 'relane', 'ready 0') end
  if field == 'index' and before ~= value then queue_index.note_change(queue) end
end

return function(arguments, queue)
  local key = keys.queue(queue)
  for i = 3, #arguments, 2 do set_property(queue, unpack(arguments, i, i + 1)) end
  if #arguments > 2 then
    redis.call('HINCRBY', key, 'bytes', 0)
    redis.call('SADD', keys.queues(), queue)
  end
  return redis.call('HGETALL', key)
end
