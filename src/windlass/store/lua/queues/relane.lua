-- Move waiting jobs of a queue to where its configuration wants them now, a bounded number per call: into name lanes,
-- into aging order, into fair turns. The position is stored with the queue, so any process may do the next step.
-- arguments: ARGV[1] clock offset, [2] queue, [3] about how many jobs
-- returns:   1 when there is more to do
-- refusals:  none
-- flags: allow-oom
-- uses: keys, batch, record, lanes, wakeups, index, wake_takers
local queue, key = ARGV[2], queue_key('q', ARGV[2])
local mark_now = redis.call('HGET', key, 'relane')
if not mark_now then return 0 end
local index, cursor = string.match(mark_now, '^(%a+) (%d+)$')

-- A scan with a cursor meets every job that is there from beginning to end. A job that it meets twice is moved twice,
-- which is harmless.
local page = redis.call('ZSCAN', queue_key(index, queue), cursor, 'COUNT', ARGV[3])
for i = 1, #page[2], 2 do
  local r = load(id_in_place(page[2][i]))
  if r then
    leave_lane(r)
    enter_lane(r)
    local lane = lane_of(r)
    if lane ~= '' then touch_lane(queue, lane, true) end
    save(r)
  end
end
flush()
ring_all()
if page[1] ~= '0' then
  redis.call('HSET', key, 'relane', index .. ' ' .. page[1])
elseif index == 'ready' then
  redis.call('HSET', key, 'relane', 'laned 0')
else
  redis.call('HDEL', key, 'relane')
  return 0
end
return 1
