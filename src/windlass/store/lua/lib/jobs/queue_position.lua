-- Position of a takeable job: what blocks its lane, and which jobs are ahead of it. Read-only.
local STATE = require('constants').STATE
local cursor = require 'cursor'
local record = require 'jobs.record'
local keys = require 'keys'
local limits = require 'limits.limits'
local configuration = require 'queues.configuration'
local fair_share = require 'queues.fair_share'
local lanes = require 'queues.lanes'

local queue_position = {}

-- Return the pauses of its queue, lane and name: {what, since + reason}; what is '' for the queue, else as in
-- limits.lua.
function queue_position.pauses_on(job)
  local found, wanted = {}, {}
  local whole = redis.call('HGET', keys.queue(job.queue), 'paused')
  if whole then found[1] = {'', whole} end
  if job.lane ~= '' then wanted[1] = 'l' .. job.lane end
  -- A scheduled job gets its lane when its time comes.
  local has_name_lane = record.has(job, 'name_lane')
    or (job.state == STATE.scheduled and configuration.of(job.queue).name_lanes == 1)
  if has_name_lane then wanted[#wanted + 1] = 'n' .. job.name end
  for _, limit_key in ipairs(wanted) do
    local content = redis.call('HGET', keys.pauses(job.queue), limit_key)
    if content then found[#found + 1] = {limit_key, content} end
  end
  return found
end

-- Return every full limit of the lane, with its definition, number of holders, instant of the next token (0: not a
-- rate), first holders, and own cap (0: none).
function queue_position.full_limits(queue, lane, most)
  local found = {}
  limits.each(lanes.limits_in(lane), function(limit_key)
    if limits.room_of(queue, limit_key) > 0 then return end
    local limit, holders = limits.definition_of(limit_key), keys.holders(limit_key)
    found[#found + 1] = {
      limit_key, redis.call('HGET', keys.limits(), limits.number_of(limit_key)), redis.call('ZCARD', holders),
      limit.is_rate and limits.next_token_at(limit_key, limit) or 0, redis.call('ZRANGE', holders, 0, most - 1),
      limits.cap_of(limit_key) or 0,
    }
  end)
  return found
end

-- Count in the queue's order; in a fair queue, where lanes take turns, within its own lane.
function queue_position.jobs_ahead(job)
  local lane, member = lanes.of(job), lanes.member_of(job)
  if fair_share.is_on(job.queue) then return redis.call('ZRANK', keys.lane(job.queue, lane), member) or 0 end
  local own, other = keys.ready(job.queue), keys.laned(job.queue)
  if lane ~= '' then own, other = other, own end
  local score = redis.call('ZSCORE', own, member)
  if not score then return 0 end
  return redis.call('ZRANK', own, member) + cursor.rank_after(other, tonumber(score), member)
end

function queue_position.count_lanes(queue)
  return redis.call('ZCARD', keys.lane_names(queue)) + redis.call('EXISTS', keys.ready(queue))
end

return queue_position
