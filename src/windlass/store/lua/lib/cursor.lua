-- Page cursors: a score and a member, because the entry at the end of the last page may have been removed since.
local order = require 'order'

local cursor = {}

-- Return the number of entries up to and including (score, member).
function cursor.rank_after(key, score, member)
  local low, high = 0, redis.call('ZCARD', key)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local entry = redis.call('ZRANGE', key, middle, middle, 'WITHSCORES')
    local entry_score = tonumber(entry[2])
    local is_behind = entry_score > score or (entry_score == score and order.is_before(member, entry[1]))
    if is_behind then high = middle else low = middle + 1 end
  end
  return low
end

return cursor
