-- Engine time in milliseconds. The first argument of a call is a clock offset, which only a deployment marked as a test
-- accepts.
local keys = require 'keys'
local script = require 'script'

local clock = {}

script.on_begin(function(_, offset)
  local time = redis.call('TIME')
  clock.now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
  if offset ~= '0' then
    if redis.call('HGET', keys.root, 'test') ~= '1' then
      error('a clock offset is accepted only by a deployment marked as a test')
    end
    clock.now_ms = clock.now_ms + tonumber(offset)
  end
end)

return clock
