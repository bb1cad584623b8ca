-- Workers say that they are alive.
-- arguments: ARGV[1] clock offset; then workers (16 bytes each)
-- returns:   per worker 'ok', 'stop' when it was asked to end, or a refusal
-- refusals:  unknown_worker
-- flags: allow-oom
-- uses: keys, clock
local answers = {}
for i = 2, #ARGV do
  local said = redis.call('HMGET', P .. 'w:' .. ARGV[i], 'beat_ms', 'stopping')
  if said[1] then redis.call('ZADD', P .. 'workers', now_ms + tonumber(said[1]), ARGV[i]) end
  table.insert(answers, not said[1] and 'unknown_worker' or said[2] and 'stop' or 'ok')
end
return answers
