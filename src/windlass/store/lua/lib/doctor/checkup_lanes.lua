-- Checks of lanes, their heads, and the limits and pauses that block them.
local batch = require 'batch'
local clock = require 'clock'
local findings = require 'doctor.findings'
local keys = require 'keys'
local blocked_lanes = require 'limits.blocked_lanes'
local limits = require 'limits.limits'
local lanes = require 'queues.lanes'
local wakeups = require 'workers.wakeups'

local checkup_lanes = {}

function checkup_lanes.check_timer(kind, queue, index)
  local first = redis.call('ZRANGE', keys.of_queue(index, queue), 0, 0, 'WITHSCORES')[2]
  if not first or tonumber(first) == math.huge then return end
  local at = redis.call('ZSCORE', keys.timer(kind), queue)
  if at and tonumber(at) <= tonumber(first) then return end
  findings.report_queue('timer_late', queue, function()
    redis.call('ZADD', keys.timer(kind), first, queue)
    wakeups.wake(queue, nil)
    wakeups.wake('', nil)
  end)
end

function checkup_lanes.split_name(name) return string.match(name, '^([^%z]*)%z(.*)$') end

local function is_head(queue, lane, line, entry, score)
  local member, first = lanes.head_of(keys.lane(queue, lane))
  if not member or lanes.blocker_of(queue, lane) ~= line then return false end
  return entry == lanes.head_entry(queue, lane, member) and tonumber(first) == tonumber(score)
end

function checkup_lanes.check_lane(name)
  local queue, lane = checkup_lanes.split_name(name)
  local member, score = lanes.head_of(keys.lane(queue, lane))
  if not member then return end
  local line, entry = lanes.line_of(queue, lanes.blocker_of(queue, lane)), lanes.head_entry(queue, lane, member)
  local found, names = redis.call('ZSCORE', line, entry), keys.lane_names(queue)
  local name_entry = lanes.name_in(lane) .. '\0' .. lane
  local is_named = redis.call('ZSCORE', names, name_entry) == '0'
  if found and tonumber(found) == tonumber(score) and is_named then return end
  findings.report_lane('lane_not_listed', queue, lane, function()
    redis.call('ZADD', line, score, entry)
    redis.call('ZADD', names, 0, name_entry)
    blocked_lanes.opened[queue] = true
  end)
end

-- Check an entry of `heads` (limit_key nil) or of a line of blocked lanes.
function checkup_lanes.check_head(queue, limit_key, entry, score)
  local lane = lanes.lane_of_head(entry)
  if is_head(queue, lane, limit_key, entry, score) then return end
  findings.report_lane('ghost', queue, lane, function()
    redis.call('ZREM', lanes.line_of(queue, limit_key), entry)
    if limit_key then blocked_lanes.tidy(queue, limit_key) end
  end)
end

function checkup_lanes.check_lane_name(queue, entry)
  local name, lane = checkup_lanes.split_name(entry)
  if lane and redis.call('EXISTS', keys.lane(queue, lane)) == 1 and lanes.name_in(lane) == name then return end
  findings.report_lane('ghost', queue, lane or entry, function() redis.call('ZREM', keys.lane_names(queue), entry) end)
end

function checkup_lanes.check_blocked_by(queue, lane, limit_key)
  if redis.call('EXISTS', keys.lane(queue, lane)) == 1 then return end
  findings.report_lane('ghost', queue, lane, function()
    redis.call('HDEL', keys.blocked_by(queue), lane)
    lanes.has_blocked[queue] = nil
    blocked_lanes.tidy(queue, limit_key)
  end)
end

function checkup_lanes.check_mark(index, queue, limit_key)
  if redis.call('EXISTS', lanes.line_of(queue, limit_key)) == 1 then return end
  findings.report_key('ghost', index .. ':' .. queue, function() blocked_lanes.tidy(queue, limit_key) end)
end

-- Return whether a taker or a timer will look at this line when it has room.
local function is_line_watched(queue, limit_key)
  if redis.call('ZSCORE', keys.room(queue), limit_key) then return true end
  local opens_at = tonumber(redis.call('ZSCORE', keys.rates(queue), limit_key) or math.huge)
  if opens_at <= clock.now_ms then return true end
  if limits.room_of(queue, limit_key) > 0 then return false end
  local limit = not limits.is_pause(limit_key) and limits.definition_of(limit_key)
  return not limit or not limit.is_rate or opens_at < math.huge
end

local function open_again(queue, limit_key)
  limits.forget_rooms()
  if limits.room_of(queue, limit_key) > 0 then
    blocked_lanes.open_line(queue, limit_key)
  else
    blocked_lanes.await_room(queue, limit_key)
  end
end

local function is_line_known(queue, limit_key)
  if limits.is_pause(limit_key) then return true end
  return redis.call('SISMEMBER', keys.blocked_in(limit_key), queue) == 1
    and redis.call('SISMEMBER', keys.limit_keys(limits.number_of(limit_key)), limit_key) == 1
end

function checkup_lanes.check_line(name)
  local queue, limit_key = checkup_lanes.split_name(name)
  if not is_line_known(queue, limit_key) then
    findings.report_lane('lane_not_listed', queue, limit_key, function()
      redis.call('SADD', keys.blocked_in(limit_key), queue)
      redis.call('SADD', keys.limit_keys(limits.number_of(limit_key)), limit_key)
    end)
  end
  limits.forget_rooms()
  -- Limits that have just changed release their lanes in steps.
  if redis.call('EXISTS', keys.rematch()) == 1 or is_line_watched(queue, limit_key) then return end
  findings.report_queue('room_forgotten', queue, function() open_again(queue, limit_key) end)
end

function checkup_lanes.check_blocked_in(limit_key, queue)
  if redis.call('EXISTS', lanes.line_of(queue, limit_key)) == 1 then return end
  findings.report_queue('ghost', queue, function() blocked_lanes.tidy(queue, limit_key) end)
end

function checkup_lanes.check_limit_key(number, limit_key)
  if redis.call('EXISTS', keys.blocked_in(limit_key), keys.holders(limit_key)) > 0 then return end
  findings.report_key('ghost', 'held:' .. number, function() redis.call('SREM', keys.limit_keys(number), limit_key) end)
end

function checkup_lanes.check_holders(limit_key)
  if redis.call('SISMEMBER', keys.limit_keys(limits.number_of(limit_key)), limit_key) == 1 then return end
  findings.report_key('limit_not_listed', 'holders:' .. limit_key, function()
    redis.call('SADD', keys.limit_keys(limits.number_of(limit_key)), limit_key)
  end)
end

-- Free the place in a limit that a job no longer holds.
function checkup_lanes.free_holder(limit_key, id)
  batch.z_remove(keys.holders(limit_key), id)
  limits.freed_now[limit_key] = true
end

function checkup_lanes.check_pauses(queue)
  local paused = redis.call('HLEN', keys.pauses(queue))
  if tonumber(redis.call('HGET', keys.queue(queue), 'pauses') or 0) == paused then return end
  findings.report_queue('pauses_miscounted', queue, function()
    redis.call('HSET', keys.queue(queue), 'pauses', paused)
  end)
end

return checkup_lanes
