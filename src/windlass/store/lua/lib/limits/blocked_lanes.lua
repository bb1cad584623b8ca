-- Blocked lanes are listed under the limit key that blocks them, in the order of their heads, and takers skip them.
-- When room appears, a few lanes return to `heads`; if there are many, takers are pointed to the whole line (`room`).
local batch = require 'batch'
local clock = require 'clock'
local due = require 'due'
local keys = require 'keys'
local limits = require 'limits.limits'
local lanes = require 'queues.lanes'
local script = require 'script'
local wakeups = require 'workers.wakeups'

local blocked_lanes = {}

local UNBLOCKED_AT_ONCE = 4
local RATES_OPENED = 100 -- per queue and call
local LINES_MAX = 50 -- with room, per queue; beyond this, lanes of the oldest line return to `heads`
local MOVED_PER_CALL = 300
local moved -- lanes blocked or unblocked in this call
-- opened: queues with new room; rate_due: next token per queue.
script.on_start(function()
  moved = 0
  blocked_lanes.opened = script.clean(blocked_lanes.opened)
  blocked_lanes.rate_due = script.clean(blocked_lanes.rate_due)
end)

function blocked_lanes.may_block_more() return moved < MOVED_PER_CALL end

-- Remove all marks of a limit key that no longer blocks a lane of the queue.
function blocked_lanes.tidy(queue, limit_key)
  if redis.call('EXISTS', lanes.line_of(queue, limit_key)) == 1 then return end
  redis.call('ZREM', keys.room(queue), limit_key)
  redis.call('ZREM', keys.rates(queue), limit_key)
  if limits.is_pause(limit_key) then return end
  redis.call('SREM', keys.blocked_in(limit_key), queue)
  if redis.call('EXISTS', keys.blocked_in(limit_key), keys.holders(limit_key)) == 0 then
    redis.call('SREM', keys.limit_keys(limits.number_of(limit_key)), limit_key)
  end
end

-- A rate opens by itself, at the instant to which the queue's timer is set.
function blocked_lanes.await_room(queue, limit_key)
  local limit = not limits.is_pause(limit_key) and limits.definition_of(limit_key)
  if not limit or not limit.is_rate then return end
  local at = limits.next_token_at(limit_key, limit)
  redis.call('ZADD', keys.rates(queue), at, limit_key)
  blocked_lanes.rate_due[queue] = math.min(blocked_lanes.rate_due[queue] or math.huge, at)
  if redis.call('ZADD', keys.timer('due'), 'LT', 'CH', at, queue) == 1 then
    wakeups.wake(queue, nil)
    wakeups.wake_loops(at)
  end
end

-- Move a lane's head from one line to another (nil: `heads`). Returns false if the lane is empty.
local function move_head(queue, lane, from, to)
  local member, score = lanes.head_of(keys.lane(queue, lane))
  if not member then return false end
  local entry = lanes.head_entry(queue, lane, member)
  redis.call('ZREM', lanes.line_of(queue, from), entry)
  redis.call('ZADD', lanes.line_of(queue, to), score, entry)
  if to then
    redis.call('HSET', keys.blocked_by(queue), lane, to)
    lanes.has_blocked[queue] = true
  else
    redis.call('HDEL', keys.blocked_by(queue), lane)
  end
  return true
end

function blocked_lanes.block(queue, lane, limit_key)
  local before = lanes.blocker_of(queue, lane)
  if before ~= limit_key then
    -- A job that became takeable may have left its lane in the same call.
    if not move_head(queue, lane, before, limit_key) then return end
    moved = moved + 1
    if not limits.is_pause(limit_key) then
      redis.call('SADD', keys.blocked_in(limit_key), queue)
      redis.call('SADD', keys.limit_keys(limits.number_of(limit_key)), limit_key)
    end
    if before then blocked_lanes.tidy(queue, before) end
  end
  blocked_lanes.await_room(queue, limit_key)
end

local function unblock(queue, limit_key, most)
  for _, entry in ipairs(redis.call('ZRANGE', lanes.line_of(queue, limit_key), 0, most - 1)) do
    move_head(queue, lanes.lane_of_head(entry), limit_key, nil)
  end
  blocked_lanes.tidy(queue, limit_key)
end

-- Open a line that has room.
function blocked_lanes.open_line(queue, limit_key)
  local size = redis.call('ZCARD', lanes.line_of(queue, limit_key))
  if size > UNBLOCKED_AT_ONCE then
    redis.call('ZADD', keys.room(queue), clock.now_ms, limit_key)
  else
    unblock(queue, limit_key, size)
  end
  if size > 0 then blocked_lanes.opened[queue] = true end
end

function blocked_lanes.open_lines(limit_key)
  if limits.room_of('', limit_key) <= 0 then return end
  for _, queue in ipairs(redis.call('SMEMBERS', keys.blocked_in(limit_key))) do
    blocked_lanes.open_line(queue, limit_key)
  end
end

-- Open the lines of rates whose next token has come.
function blocked_lanes.open_rates(queue)
  local key = keys.rates(queue)
  for _, limit_key in ipairs(due.members(key, RATES_OPENED)) do
    redis.call('ZREM', key, limit_key)
    limits.forget_rooms()
    if limits.room_of(queue, limit_key) > 0 then
      blocked_lanes.open_line(queue, limit_key)
    else
      blocked_lanes.await_room(queue, limit_key)
    end
  end
end

-- Return the lines that a taker scans: `heads`, and the lines of blocked lanes that have room.
function blocked_lanes.open_lines_of(queue)
  local lines, key = {keys.heads(queue)}, keys.room(queue)
  local marked = redis.call('ZRANGE', key, 0, LINES_MAX)
  while #marked > LINES_MAX and blocked_lanes.may_block_more() do
    unblock(queue, marked[1], UNBLOCKED_AT_ONCE)
    moved = moved + UNBLOCKED_AT_ONCE
    marked = redis.call('ZRANGE', key, 0, LINES_MAX)
  end
  for _, limit_key in ipairs(marked) do
    if limits.room_of(queue, limit_key) > 0 then
      lines[#lines + 1] = lanes.line_of(queue, limit_key)
    else
      redis.call('ZREM', key, limit_key)
      blocked_lanes.await_room(queue, limit_key)
    end
  end
  return lines
end

batch.after_flush(function()
  limits.forget_rooms()
  if next(limits.freed_now) == nil and next(lanes.emptied) == nil then return end
  local freed, gone = limits.freed_now, lanes.emptied
  limits.freed_now, lanes.emptied = {}, {}
  for _, lane in ipairs(gone) do blocked_lanes.tidy(lane.queue, lane.limit_key) end
  for limit_key in pairs(freed) do
    blocked_lanes.open_lines(limit_key)
    if redis.call('EXISTS', keys.blocked_in(limit_key), keys.holders(limit_key)) == 0 then
      redis.call('SREM', keys.limit_keys(limits.number_of(limit_key)), limit_key)
    end
  end
end)

return blocked_lanes
