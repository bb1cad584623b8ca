-- Return the pauses of a queue.
-- arguments: ARGV[1] clock offset, [2] queue
-- returns:   {what, since (6 bytes) + reason, ...}; what is '' for the queue, 'l' + lane, 'n' + name
-- refusals:  none
-- flags: no-writes
-- uses: keys
local answer = redis.call('HGETALL', queue_key('pauses', ARGV[2]))
local whole = redis.call('HGET', queue_key('q', ARGV[2]), 'paused')
if whole then
  table.insert(answer, '')
  table.insert(answer, whole)
end
return answer
