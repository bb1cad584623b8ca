-- Lanes other than the default lane: keeps their heads and the index of their names up to date. The head of a lane is
-- in one line: in `heads`, or, while a limit or a pause blocks the lane, among the lanes blocked by it.
local batch = require 'batch'
local record = require 'jobs.record'
local keys = require 'keys'
local configuration = require 'queues.configuration'
local fair_share = require 'queues.fair_share'
local script = require 'script'

local lanes = {}

local touched_lanes
-- has_blocked: queue -> whether it has blocked lanes. emptied: {queue, limit key that blocked it} of lanes that are
-- gone.
script.on_start(function()
  touched_lanes, lanes.has_blocked = script.clean(touched_lanes), script.clean(lanes.has_blocked)
  lanes.emptied = script.clean(lanes.emptied)
end)

-- Return a job's lane, from its record alone: tenant \0 name \0 limits, the last only if there are any; \1 precedes the
-- tenant if the job is hidden. '' is the default lane.
function lanes.of(job)
  local is_hidden = record.has(job, 'hidden')
  if job.links == '' and job.lane == '' and not record.has(job, 'name_lane') and not is_hidden then return '' end
  local limits = record.links_of(job).limits
  local name = record.has(job, 'name_lane') and job.name or ''
  local tenant = is_hidden and '\1' .. job.lane or job.lane
  if limits ~= '' then return tenant .. '\0' .. name .. '\0' .. limits end
  if name ~= '' or tenant ~= '' then return tenant .. '\0' .. name end
  return ''
end
function lanes.name_in(lane) return string.match(lane, '^[^%z]*%z([^%z]*)') end
function lanes.tenant_in(lane) return string.match(lane, '^\1?([^%z]*)') end
function lanes.is_hidden(lane) return string.byte(lane) == 1 end
function lanes.limits_in(lane) return string.match(lane, '^[^%z]*%z[^%z]*%z(.*)$') or '' end

function lanes.member_of(job)
  return struct.pack('>I6I6', job.ready_at, job.sequence) .. job.id
end
function lanes.id_in_member(member) return string.sub(member, 13, 28) end
function lanes.lane_of_head(entry) return string.sub(entry, 29) end

-- With aging, a step of priority is worth `aging_ms` of waiting, so the order needs no clock.
function lanes.score_of(job, config)
  local aging_ms = config.aging_ms
  return aging_ms > 0 and job.priority * aging_ms + job.ready_at or job.priority
end

function lanes.head_of(key)
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return first[1], first[2]
end

-- Return the limit key that blocks a lane (limits.lua), or nil.
function lanes.blocker_of(queue, lane)
  if lanes.has_blocked[queue] == nil then
    lanes.has_blocked[queue] = redis.call('EXISTS', keys.blocked_by(queue)) == 1
  end
  return lanes.has_blocked[queue] and redis.call('HGET', keys.blocked_by(queue), lane) or nil
end
function lanes.line_of(queue, limit_key)
  return limit_key and keys.blocked_lanes(queue, limit_key) or keys.heads(queue)
end

-- Return the entry of a lane in its line. If the queue is fair, or is being relaned, it begins with the virtual time at
-- which it was entered.
local function keeps_entered(queue) return fair_share.is_on(queue) or configuration.of(queue).is_relaning end
function lanes.head_entry(queue, lane, member)
  local entered = keeps_entered(queue) and redis.call('HGET', keys.entered(queue), lane)
  return (entered or string.sub(member, 1, 6)) .. string.sub(member, 7) .. lane
end

local function enter_line(queue, lane, line, member, score)
  if fair_share.is_on(queue) then
    local order = fair_share.order_bytes(fair_share.virtual_time(queue, lanes.tenant_in(lane)))
    redis.call('HSET', keys.entered(queue), lane, order)
    member = order .. string.sub(member, 7)
  elseif keeps_entered(queue) then
    redis.call('HDEL', keys.entered(queue), lane)
  end
  redis.call('ZADD', line, score, member .. lane)
end

-- Remember a lane's head. Must be called before the lane changes. `is_forced`: rewrite its entry in any case.
function lanes.touch(queue, lane, is_forced)
  local key = keys.lane(queue, lane)
  if not touched_lanes[key] then
    local head, score = lanes.head_of(key)
    touched_lanes[key] = {queue = queue, lane = lane, head = head, score = score}
  end
  touched_lanes[key].is_forced = touched_lanes[key].is_forced or is_forced
end

local function forget_lane(queue, lane, limit_key)
  if limit_key then
    redis.call('HDEL', keys.blocked_by(queue), lane)
    lanes.emptied[#lanes.emptied + 1] = {queue = queue, limit_key = limit_key}
  end
  if keeps_entered(queue) then redis.call('HDEL', keys.entered(queue), lane) end
end

-- Write the new head of a lane to its line, and the name of a lane that is new or gone to the index of names.
local function change_head(before, head, score)
  local queue, lane, names = before.queue, before.lane, keys.lane_names(before.queue)
  local limit_key = before.head and lanes.blocker_of(queue, lane)
  local line = lanes.line_of(queue, limit_key)
  local name_entry = lanes.name_in(lane) .. '\0' .. lane
  if before.head then redis.call('ZREM', line, lanes.head_entry(queue, lane, before.head)) end
  if head then enter_line(queue, lane, line, head, score) else forget_lane(queue, lane, limit_key) end
  if not before.head then redis.call('ZADD', names, 0, name_entry) end
  if not head then redis.call('ZREM', names, name_entry) end
end

batch.after_flush(function()
  if next(touched_lanes) == nil then return end
  local touched = touched_lanes
  touched_lanes = {}
  for key, before in pairs(touched) do
    local head, score = lanes.head_of(key)
    local is_changed = head ~= before.head or score ~= before.score
    if is_changed or (head and before.is_forced) then change_head(before, head, score) end
  end
end)

return lanes
