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
-- tenant if the job is hidden, and \1\2 if it is only for takers that know steps. '' is the default lane. Earlier
-- versions treat both kinds as hidden.
function lanes.of(job)
  local is_hidden, needs_steps = record.has(job, 'hidden'), record.has(job, 'needs_steps')
  if job.links == '' and job.lane == '' and not record.has(job, 'name_lane') and not is_hidden and not needs_steps then
    return ''
  end
  local limits = record.links_of(job).limits
  local name = record.has(job, 'name_lane') and job.name or ''
  local tenant = (needs_steps and '\1\2' or '') .. (is_hidden and '\1' or '') .. job.lane
  if limits ~= '' then return tenant .. '\0' .. name .. '\0' .. limits end
  if name ~= '' or tenant ~= '' then return tenant .. '\0' .. name end
  return ''
end
function lanes.name_in(lane) return string.match(lane, '^[^%z]*%z([^%z]*)') end
local STEPS = '\1\2'
local function after_steps(lane) return string.sub(lane, 1, 2) == STEPS and 3 or 1 end
function lanes.tenant_in(lane) return string.match(lane, '^\1?([^%z]*)', after_steps(lane)) end
function lanes.is_hidden(lane) return string.byte(lane, after_steps(lane)) == 1 end
function lanes.needs_steps(lane) return after_steps(lane) > 1 end
function lanes.limits_in(lane) return string.match(lane, '^[^%z]*%z[^%z]*%z(.*)$') or '' end

local MEMBER = '>I6I6c16' -- ready time, sequence, id
local pack, unpack_bytes
script.once(function() pack, unpack_bytes = struct.pack, struct.unpack end)

-- Return the member of a lane for a job; for a new job from numbers that are packed already (record.pack_number).
function lanes.member_of(job) return pack(MEMBER, job.ready_at, job.sequence, job.id) end
function lanes.member(ready_at, sequence, id) return ready_at .. sequence .. id end
-- Return ready time, sequence and id.
function lanes.read_member(member) return unpack_bytes(MEMBER, member) end
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

-- Return the entry of a lane's new head in its line, and note its virtual time.
local function new_head_entry(queue, lane, member)
  if fair_share.is_on(queue) then
    local order = fair_share.order_bytes(fair_share.virtual_time(queue, lanes.tenant_in(lane)))
    redis.call('HSET', keys.entered(queue), lane, order)
    member = order .. string.sub(member, 7)
  elseif keeps_entered(queue) then
    redis.call('HDEL', keys.entered(queue), lane)
  end
  return member .. lane
end

-- Replace the entry of a lane's head in its line (nil: there is none), and keep the index of names up to date.
local function write_head(line, names, lane, before, entry, score)
  if before then redis.call('ZREM', line, before) end
  if entry then redis.call('ZADD', line, score, entry) end
  if not before then redis.call('ZADD', names, 0, lanes.name_in(lane) .. '\0' .. lane) end
  if not entry then redis.call('ZREM', names, lanes.name_in(lane) .. '\0' .. lane) end
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

local function change_head(before, head, score)
  local queue, lane = before.queue, before.lane
  local limit_key = before.head and lanes.blocker_of(queue, lane)
  local old_entry = before.head and lanes.head_entry(queue, lane, before.head)
  if not head then forget_lane(queue, lane, limit_key) end
  local entry = head and new_head_entry(queue, lane, head)
  write_head(lanes.line_of(queue, limit_key), keys.lane_names(queue), lane, old_entry, entry, score)
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

-- Add members to a lane, for the fast path: a lane that no limit or pause blocks, of a queue without fair share.
function lanes.append(queue_keys, queue, lane, members)
  local key = keys.lane(queue, lane)
  local before, score_before = lanes.head_of(key)
  redis.call('ZADD', key, unpack(members))
  local head, score = lanes.head_of(key)
  if head == before and score == score_before then return end
  write_head(queue_keys.heads, queue_keys.lane_names, lane, before and before .. lane, head .. lane, score)
end

return lanes
