-- Lanes in which a taker may find a job: a scan over the heads in order, or over the names that its filter wants, but
-- not over jobs. A blocked lane that the scan meets is moved out of the way, so that the next scan does not meet it.
local glob = require 'glob'
local keys = require 'keys'
local blocked_lanes = require 'limits.blocked_lanes'
local limits = require 'limits.limits'
local fair_share = require 'queues.fair_share'
local lanes = require 'queues.lanes'
local taker_filter = require 'workers.taker_filter'

local scan = {}

local LANES_SCANNED = 1000 -- per call; the caller continues a longer scan, so that other calls run in between
local HEADS_READ = 100
local LANES_BY_NAME = 200
scan.FROM_THE_START = -1 -- value of `resume`: scan again from the start

local function lanes_by_prefix(queue, from, to)
  local names = keys.lane_names(queue)
  local entries = redis.call('ZRANGEBYLEX', names, '[' .. from, '(' .. to, 'LIMIT', 0, LANES_BY_NAME + 1)
  if #entries > LANES_BY_NAME then return nil end
  local chosen = {}
  for i, entry in ipairs(entries) do chosen[i] = string.match(entry, '^[^%z]*%z(.*)$') end
  return chosen
end

-- Return whether jobs may be taken from a lane. If not, it is moved to the blocked lanes.
local function is_open(queue, lane)
  local limit_key = limits.blocker_of(queue, lane)
  if not limit_key then return true end
  blocked_lanes.block(queue, lane, limit_key)
  return false
end

-- Return the lanes that the index of names yields, or nil if only a scan over the heads will do.
local function narrowed_lanes(queue, filter)
  local chosen = {}
  local function add_open(candidates)
    for _, lane in ipairs(candidates) do
      if not blocked_lanes.may_block_more() then return end
      if taker_filter.matches_lane(filter, lane) and is_open(queue, lane) then chosen[#chosen + 1] = lane end
    end
  end
  if filter.kind == 'only' then
    for _, name in ipairs(filter.list) do
      local of_name = lanes_by_prefix(queue, name .. '\0', name .. '\1')
      if not of_name then return nil end
      add_open(of_name)
    end
    return chosen
  end
  local prefix = filter.kind == 'glob' and glob.literal_prefix(filter.pattern) or ''
  local candidates = prefix ~= '' and lanes_by_prefix(queue, prefix, prefix .. '\255')
  if not candidates then return nil end
  add_open(candidates)
  return chosen
end

-- Return a collector of lanes that returns true when there are enough: no more than `most` can contribute, and the
-- first are the best. In a fair queue that is true of tenants, because each taken job moves all lanes of its tenant
-- back. With an exact priority every lane counts: its head may hide a job of that priority.
local function collector(queue, filter, most, chosen)
  local found, of_tenant = 0, fair_share.is_on(queue) and {} or nil
  return function(lane)
    local tenant = of_tenant and lanes.tenant_in(lane)
    local before = of_tenant and of_tenant[tenant] or 0
    if before < most or filter.priority then chosen[#chosen + 1] = lane end
    if of_tenant then of_tenant[tenant] = before + 1 end
    if before == 0 then found = found + 1 end
    return found == most and not filter.priority
  end
end

-- Scan one line of heads in order. Adds to `chosen`; returns where the scan stopped (nil: at the end, or with enough
-- lanes).
local function scan_line(queue, line, filter, most, from, steps, chosen)
  local at, scanned, is_enough_with = from, 0, collector(queue, filter, most, chosen)
  while scanned < steps do
    local entries = redis.call('ZRANGE', line, at, at + HEADS_READ - 1)
    local left = #entries
    for _, entry in ipairs(entries) do
      local lane = lanes.lane_of_head(entry)
      if taker_filter.matches_lane(filter, lane) then
        if not blocked_lanes.may_block_more() then return scan.FROM_THE_START end
        if not is_open(queue, lane) then
          left = left - 1
        elseif is_enough_with(lane) then
          return nil
        end
      end
    end
    if #entries < HEADS_READ then return nil end
    at = at + left
    scanned = scanned + HEADS_READ
  end
  return at
end

local REFRESHED = 100 -- entries per scan and line

local function refresh_entry(queue, line, entry, score)
  local lane = lanes.lane_of_head(entry)
  local order = fair_share.order_bytes(fair_share.virtual_time(queue, lanes.tenant_in(lane)))
  if order == string.sub(entry, 1, 6) then return false end
  redis.call('ZREM', line, entry)
  redis.call('ZADD', line, score, order .. string.sub(entry, 7))
  redis.call('HSET', keys.entered(queue), lane, order)
  return true
end

-- Entries contain the virtual time at which they were entered. A tenant with several lanes may be further by now, so
-- the entries are lower bounds: when those of the first `most` tenants are right, no tenant behind them is better.
local function refresh_turns(queue, line, most)
  local moved, read = 0, math.min(most, HEADS_READ)
  repeat
    local entries = redis.call('ZRANGE', line, 0, read - 1, 'WITHSCORES')
    local tenants, found, moved_before = {}, 0, moved
    for i = 1, #entries, 2 do
      if refresh_entry(queue, line, entries[i], entries[i + 1]) then moved = moved + 1 end
      local tenant = lanes.tenant_in(lanes.lane_of_head(entries[i]))
      if not tenants[tenant] then found = found + 1 end
      tenants[tenant] = true
    end
    local is_through = found >= most or #entries < 2 * read or read >= HEADS_READ
    if moved == moved_before then read = math.min(2 * read, HEADS_READ) end
  until (moved == moved_before and is_through) or moved >= REFRESHED
end

local function scan_lines(queue, filter, most, from, steps)
  local chosen, resume = {}, nil
  for _, line in ipairs(blocked_lanes.open_lines_of(queue)) do
    if from == 0 and fair_share.is_on(queue) then refresh_turns(queue, line, most) end
    local stopped_at = scan_line(queue, line, filter, most, from, steps, chosen)
    if stopped_at and (not resume or stopped_at < resume) then resume = stopped_at end
  end
  return chosen, resume
end

-- A short scan of the best heads, then the index of names, then the long scan.
function scan.lanes_for(queue, filter, most, from)
  if from == 0 and filter.kind ~= 'only' and not filter.priority then
    local chosen, stopped_at = scan_lines(queue, filter, most, 0, HEADS_READ)
    if not stopped_at then return chosen, nil end
  end
  local narrowed = narrowed_lanes(queue, filter)
  if narrowed then
    local is_cut = #narrowed == 0 and not blocked_lanes.may_block_more()
    return narrowed, is_cut and scan.FROM_THE_START or nil
  end
  local chosen, stopped_at = scan_lines(queue, filter, most, from, LANES_SCANNED)
  return chosen, (#chosen == 0 or filter.priority) and stopped_at or nil
end

return scan
