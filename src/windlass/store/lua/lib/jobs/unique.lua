-- uses: keys, record
-- Holders of unique keys, oldest first. Written immediately, so that later jobs of the same call see them.
local function unique_key(r) return P .. 'u:' .. r.queue .. '\0' .. r.unique end

local function oldest_holder(r)
  local id = redis.call('ZRANGE', unique_key(r), 0, 0)[1]
  return id and load(id)
end
local function newest_holder(r)
  local id = redis.call('ZRANGE', unique_key(r), -1, -1)[1]
  return id and load(id)
end
local function hold_unique(r)
  if r.unique ~= '' then redis.call('ZADD', unique_key(r), r.sequence, r.id) end
end
local function let_unique_go(r)
  if r.unique ~= '' then redis.call('ZREM', unique_key(r), r.id) end
end
