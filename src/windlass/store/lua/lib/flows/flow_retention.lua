-- Retention of flows. A flow stays as long as the record of one of its jobs, and a day after its last one. The number
-- of steps of flows without records is bounded: the flow that would be removed first makes room.
local clock = require 'clock'
local due = require 'due'
local keys = require 'keys'

local flow_retention = {}

flow_retention.KEPT_MS = 86400000 -- after its last record
local STEPS_MAX = 100000 -- per partition, of flows without records
local TRIMMED_AT_ONCE = 20 -- flows, per flow that loses its last record

local function change_steps(by)
  if by ~= 0 and redis.call('INCRBY', keys.flow_steps(), by) <= 0 then redis.call('DEL', keys.flow_steps()) end
end

local function total_of(id) return tonumber(redis.call('HGET', keys.flow(id), 'total') or 0) end

-- Return the number of steps of flows without records, counted again if these flows are few.
local COUNTED_MAX = 1000
function flow_retention.count_steps()
  local ids = redis.call('ZRANGE', keys.flow_retention(), 0, COUNTED_MAX)
  if #ids > COUNTED_MAX then return tonumber(redis.call('GET', keys.flow_steps()) or 0) end
  local steps = 0
  for _, id in ipairs(ids) do steps = steps + total_of(id) end
  return steps
end

-- Write the number of steps as it must be.
function flow_retention.recount_steps()
  local steps = flow_retention.count_steps()
  if steps == 0 then return redis.call('DEL', keys.flow_steps()) end
  redis.call('SET', keys.flow_steps(), string.format('%.0f', steps))
end

-- A flow has records again: an import has added one.
function flow_retention.keep(id)
  if redis.call('ZREM', keys.flow_retention(), id) == 1 then change_steps(-total_of(id)) end
end

function flow_retention.remove(id)
  flow_retention.keep(id)
  redis.call('ZREM', keys.flows(), id)
  redis.call('UNLINK', keys.flow(id))
end

-- Remove up to `most` flows while there are too many steps. Returns the number of flows.
function flow_retention.trim(most)
  local removed = 0
  while removed < most and tonumber(redis.call('GET', keys.flow_steps()) or 0) > STEPS_MAX do
    local first = redis.call('ZRANGE', keys.flow_retention(), 0, 0)[1]
    if not first then break end
    flow_retention.remove(first)
    removed = removed + 1
  end
  return removed
end

-- The last record of a flow was removed.
function flow_retention.leave(id)
  if redis.call('ZADD', keys.flow_retention(), clock.now_ms + flow_retention.KEPT_MS, id) == 0 then return end
  change_steps(total_of(id))
  flow_retention.trim(TRIMMED_AT_ONCE)
end

-- Remove up to `most` flows whose time is over, and as many if there are too many steps. Returns their number.
function flow_retention.remove_old(most)
  local ids = due.members(keys.flow_retention(), most)
  for _, id in ipairs(ids) do flow_retention.remove(id) end
  return #ids + flow_retention.trim(most)
end

return flow_retention
