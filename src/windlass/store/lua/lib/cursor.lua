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

-- Return up to `most` entries before a position in descending order: {member, score, ...}. Without a position, from the
-- end.
function cursor.read_down(key, position, most)
  local size = redis.call('ZCARD', key)
  local before = position and cursor.rank_after(key, position.score, position.member) or size
  -- The entry at the position was on the last page, unless it has been removed or moved since.
  local is_there = position and tonumber(redis.call('ZSCORE', key, position.member) or nil) == position.score
  if is_there then before = before - 1 end
  if before <= 0 then return {} end
  return redis.call('ZREVRANGE', key, size - before, size - before + most - 1, 'WITHSCORES')
end

return cursor
