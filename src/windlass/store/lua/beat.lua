-- Workers say that they are alive.
-- arguments: ARGV[1] clock offset; then workers (16 bytes each)
-- returns:   per worker 'ok' or a refusal
-- refusals:  unknown_worker
-- flags: allow-oom
-- uses: keys, clock
local answers = {}
for i = 2, #ARGV do
  local beat_ms = redis.call('HGET', P .. 'w:' .. ARGV[i], 'beat_ms')
  if beat_ms then redis.call('ZADD', P .. 'workers', now_ms + tonumber(beat_ms), ARGV[i]) end
  table.insert(answers, beat_ms and 'ok' or 'unknown_worker')
end
return answers
