-- Move waiting jobs of a queue to where its configuration wants them now, a bounded number per call: into name lanes,
-- into aging order, into fair turns. The position is stored with the queue, so any process may do the next step.
-- arguments: queue, count (about how many jobs)
-- returns:   1 when there is more to do
-- refusals:  none
-- flags: allow-oom
local commit = require 'commit'
local index = require 'jobs.index'
local record = require 'jobs.record'
local keys = require 'keys'
local lanes = require 'queues.lanes'

local function relane(queue, job)
  index.leave_lane(job)
  index.enter_lane(job)
  local lane = lanes.of(job)
  if lane ~= '' then lanes.touch(queue, lane, true) end
  record.save(job)
end

-- Return the position behind a page; nil: there are no more jobs.
local function position_after(kind, cursor)
  if cursor ~= '0' then return kind .. ' ' .. cursor end
  return kind == 'ready' and 'laned 0' or nil
end

return function(_, queue, count)
  local key = keys.queue(queue)
  local position = redis.call('HGET', key, 'relane')
  if not position then return 0 end
  local kind, cursor = string.match(position, '^(%a+) (%d+)$')
  -- A scan with a cursor meets every job that is there from beginning to end. A job that it meets twice is moved twice,
  -- which is harmless.
  local page = redis.call('ZSCAN', keys.of_queue(kind, queue), cursor, 'COUNT', count)
  for i = 1, #page[2], 2 do
    local job = record.load(lanes.id_in_member(page[2][i]))
    if job then relane(queue, job) end
  end
  commit.run()
  position = position_after(kind, page[1])
  if position then redis.call('HSET', key, 'relane', position) else redis.call('HDEL', key, 'relane') end
  return position and 1 or 0
end
