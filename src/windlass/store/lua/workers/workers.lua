-- Return a page of registered workers, with the jobs that each holds.
-- arguments: ARGV[1] clock offset, [2] from, [3] most, [4] most jobs per worker, [5...] these workers instead of a page
-- returns:   per worker {worker, silent at, started at, description, jobs held, {id, since, ...}, stop requested at
--            (0: not), heartbeat interval in ms}
-- refusals:  none
-- flags: no-writes
-- uses: keys
local from, most = tonumber(ARGV[2]), tonumber(ARGV[3])
local answers = {}
local page = {}
for i = 5, #ARGV do
  table.insert(page, ARGV[i])
  table.insert(page, redis.call('ZSCORE', P .. 'workers', ARGV[i]) or 0)
end
if #ARGV == 4 then page = redis.call('ZRANGE', P .. 'workers', from, from + most - 1, 'WITHSCORES') end
for i = 1, #page, 2 do
  local worker = page[i]
  local said = redis.call('HMGET', P .. 'w:' .. worker, 'started_at', 'description', 'stopping', 'beat_ms')
  local jobs = redis.call('ZRANGE', P .. 'wj:' .. worker, 0, tonumber(ARGV[4]) - 1, 'WITHSCORES')
  table.insert(answers, {worker, tonumber(page[i + 1]), tonumber(said[1] or 0), said[2] or '',
    redis.call('ZCARD', P .. 'wj:' .. worker), jobs, tonumber(said[3] or 0), tonumber(said[4] or 0)})
end
return answers
