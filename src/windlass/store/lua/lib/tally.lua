-- uses: keys, clock, batch
-- Counters per queue and minute, for plots. Counts of what exists now come from the indexes, never from here.
local TALLY_TTL_S = 172800
local tallies
at_start[#at_start + 1] = function() tallies = {} end

local function tally(queue, what, delta)
  local fields = tallies[queue]
  if not fields then
    fields = {}
    tallies[queue] = fields
  end
  fields[what] = (fields[what] or 0) + delta
end

after_flush[#after_flush + 1] = function()
  local minute = math.floor(now_ms / 60000)
  local hour = math.floor(minute / 60)
  for queue, fields in pairs(tallies) do
    local key = P .. 'm:' .. queue .. '\0' .. hour
    for what, delta in pairs(fields) do
      local total = redis.call('HINCRBY', key, (minute % 60) .. ':' .. what, delta)
      if total == delta then redis.call('EXPIRE', key, TALLY_TTL_S) end
    end
  end
  tallies = {}
end
