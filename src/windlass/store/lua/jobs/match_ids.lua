-- Find jobs of some queues whose ids begin or end with some hex digits. Reads members of indexes, from the newest end,
-- and no record. It returns as soon as enough ids were found.
-- arguments: place ('begin', 'end' or 'either'), prefix and suffix (the digits as whole bytes), prefix_digit and
--            suffix_digit (value of an odd digit behind the prefix, or before the suffix; '': none), most (ids),
--            most_read (members of each queue; at least one of each index); then per queue its name, and the number of
--            members of each index that were read before
-- returns:   {{id, ...}, number of members read, {members of each index read so far ('': no more), ... of the queues}}
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'
local lanes = require 'queues.lanes'
local script = require 'script'

local QUEUES_AT = 9
local ID_BYTES = 16
local INDEXES = {
  'running', 'ready', 'laned', 'scheduled', 'waiting', 'suspended', 'failed', 'cancelled', 'finished', 'history',
}
local HAS_LANE_MEMBERS = {ready = true, laned = true}

local function begins(id, part)
  local size = #part.prefix
  return string.sub(id, 1, size) == part.prefix
    and (part.prefix_digit == nil or math.floor(string.byte(id, size + 1) / 16) == part.prefix_digit)
end

local function ends(id, part)
  local at = ID_BYTES - #part.suffix
  return string.sub(id, at + 1) == part.suffix
    and (part.suffix_digit == nil or string.byte(id, at) % 16 == part.suffix_digit)
end

-- Return a function that tells whether an id matches.
local function matcher(place, part)
  if place == 'begin' then return function(id) return begins(id, part) end end
  if place == 'end' then return function(id) return ends(id, part) end end
  return function(id) return ends(id, part) or begins(id, part) end
end

-- Return the indexes of a queue that have more members than were read.
local function unread(queue, read_before)
  local found = {}
  for _, index in ipairs(INDEXES) do
    local key = keys.of_queue(index, queue)
    local size = redis.call('ZCARD', key)
    if size > read_before then found[#found + 1] = {key = key, size = size, is_of_lanes = HAS_LANE_MEMBERS[index]} end
  end
  return found
end

local function read_index(index, from, share, search)
  for _, member in ipairs(redis.call('ZREVRANGE', index.key, from, from + share - 1)) do
    if #search.found >= search.most then return end
    local id = index.is_of_lanes and lanes.id_in_member(member) or member
    if search.matches(id) then search.found[#search.found + 1] = id end
    search.read = search.read + 1
  end
end

return function(arguments, place, prefix, suffix, prefix_digit, suffix_digit, most, most_read)
  local part = {
    prefix = prefix, suffix = suffix, prefix_digit = tonumber(prefix_digit), suffix_digit = tonumber(suffix_digit),
  }
  local search = {matches = matcher(place, part), most = tonumber(most), found = {}, read = 0}
  most_read = tonumber(most_read)
  local positions = script.map(arguments, QUEUES_AT, 2, function(queue, from)
    from = tonumber(from)
    if #search.found >= search.most then return from end
    local indexes = unread(queue, from)
    local share = math.max(1, math.floor(most_read / #indexes))
    local has_more = false
    for _, index in ipairs(indexes) do
      read_index(index, from, share, search)
      has_more = has_more or index.size > from + share
    end
    return has_more and from + share or ''
  end)
  return {search.found, search.read, positions}
end
