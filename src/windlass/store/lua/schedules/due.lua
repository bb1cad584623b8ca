-- Return schedules whose time has come. Read-only: the caller computes their occurrences, and fire creates the jobs.
-- arguments: ARGV[1] clock offset, [2] most
-- returns:   {now, next occurrence of any schedule (0: none), {{name, next occurrence, revision, definition}, ...}}
-- refusals:  none
-- flags: no-writes
-- uses: keys, clock, schedules
local ANSWER_BYTES_MOST = 8388608 -- definitions carry payloads
local due, bytes = {}, 0
for _, name in ipairs(redis.call('ZRANGEBYSCORE', P .. 'schedules', '-inf', now_ms, 'LIMIT', 0, tonumber(ARGV[2]))) do
  if bytes > ANSWER_BYTES_MOST then break end
  local fields = redis.call('HMGET', schedule_key(name), 'next_at', 'revision', 'definition')
  due[#due + 1] = {name, tonumber(fields[1]), tonumber(fields[2]), fields[3]}
  bytes = bytes + #fields[3]
end
local first = redis.call('ZRANGE', P .. 'schedules', 0, 0, 'WITHSCORES')
local following = tonumber(first[2] or math.huge)
return {now_ms, following < math.huge and following or 0, due}
