-- Engine time in milliseconds. ARGV[1] is a clock offset, which only a deployment marked as a test accepts.
local keys = require 'keys'
local script = require 'script'

local clock = {}

script.on_begin(function()
  local time = redis.call('TIME')
  clock.now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
  if script.arguments[1] ~= '0' then
    local offset_ms = tonumber(script.arguments[1])
    if redis.call('HGET', keys.root, 'test') ~= '1' then
      error('a clock offset is accepted only by a deployment marked as a test')
    end
    clock.now_ms = clock.now_ms + offset_ms
  end
end)

return clock
