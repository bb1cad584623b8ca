-- Move waiting jobs of a queue to where its configuration wants them now, a bounded number per call: into name lanes,
-- into aging order, into fair turns. The position is stored with the queue, so any process may do the next step.
-- arguments: ARGV[1] clock offset, [2] queue, [3] about how many jobs
-- returns:   1 when there is more to do
-- refusals:  none
-- flags: allow-oom
local batch = require 'batch'
local index = require 'jobs.index'
local record = require 'jobs.record'
local keys = require 'keys'
local lanes = require 'queues.lanes'
local wake_takers = require 'workers.wake_takers'

return function(arguments)
  local queue, key = arguments[2], keys.queue(arguments[2])
  local mark_now = redis.call('HGET', key, 'relane')
  if not mark_now then return 0 end
  local kind, cursor = string.match(mark_now, '^(%a+) (%d+)$')
  -- A scan with a cursor meets every job that is there from beginning to end. A job that it meets twice is moved twice,
  -- which is harmless.
  local page = redis.call('ZSCAN', keys.of_queue(kind, queue), cursor, 'COUNT', arguments[3])
  for i = 1, #page[2], 2 do
    local job = record.load(lanes.id_in_member(page[2][i]))
    if job then
      index.leave_lane(job)
      index.enter_lane(job)
      local lane = lanes.of(job)
      if lane ~= '' then lanes.touch(queue, lane, true) end
      record.save(job)
    end
  end
  batch.flush()
  wake_takers.wake_all()
  if page[1] ~= '0' then
    redis.call('HSET', key, 'relane', kind .. ' ' .. page[1])
  elseif kind == 'ready' then
    redis.call('HSET', key, 'relane', 'laned 0')
  else
    redis.call('HDEL', key, 'relane')
    return 0
  end
  return 1
end
