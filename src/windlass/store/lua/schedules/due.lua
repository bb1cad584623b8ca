-- Return schedules whose time has come. Read-only: the caller computes their occurrences, and fire creates the jobs.
-- arguments: ARGV[1] clock offset, [2] most
-- returns:   {now, next occurrence of any schedule (0: none), {{name, next occurrence, revision, definition}, ...}}
-- refusals:  none
-- flags: no-writes
local clock = require 'clock'
local keys = require 'keys'

local ANSWER_BYTES_MOST = 8388608 -- definitions carry payloads

return function(arguments)
  local due, bytes = {}, 0
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', keys.schedules(), '-inf', clock.now_ms, 'LIMIT', 0, tonumber(arguments[2]))) do
    if bytes > ANSWER_BYTES_MOST then break end
    local fields = redis.call('HMGET', keys.schedule(name), 'next_at', 'revision', 'definition')
    due[#due + 1] = {name, tonumber(fields[1]), tonumber(fields[2]), fields[3]}
    bytes = bytes + #fields[3]
  end
  local first = redis.call('ZRANGE', keys.schedules(), 0, 0, 'WITHSCORES')
  local following = tonumber(first[2] or math.huge)
  return {clock.now_ms, following < math.huge and following or 0, due}
end
