-- Engine time in milliseconds. ARGV[1] is a clock offset, which only a deployment marked as a test accepts.
local now_ms

at_begin[#at_begin + 1] = function()
  local time = redis.call('TIME')
  now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
  if ARGV[1] ~= '0' then
    local offset_ms = tonumber(ARGV[1])
    if redis.call('HGET', KEYS[1], 'test') ~= '1' then
      error('a clock offset is accepted only by a deployment marked as a test')
    end
    now_ms = now_ms + offset_ms
  end
end
