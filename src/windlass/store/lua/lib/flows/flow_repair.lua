-- Fields of a flow as its steps and the records of its jobs imply them, for imports and the doctor.
local clock = require 'clock'
local flow_record = require 'flows.flow_record'
local flow_retention = require 'flows.flow_retention'
local record = require 'jobs.record'
local keys = require 'keys'

local flow_repair = {}

local function as_text(number) return string.format('%.0f', number) end

-- Return the end of a job that was removed, and whose end is unknown.
local function unknown_end(created_at)
  return struct.pack(flow_record.END, flow_record.DELETED, 0, 0, 0, created_at, 0, clock.now_ms)
end

-- Return the end that a step must have (nil: none), and whether its record exists.
local function expected_end(job_id, known, created_at)
  local is_readable, job = pcall(record.load, job_id)
  if not is_readable then return known, true end
  if not job then return known or unknown_end(created_at), false end
  if not record.is_ended(job) then return nil, true end
  local own = flow_record.pack_end(job)
  return known and flow_record.count_of(known) == flow_record.count_of(own) and known or own, true
end

local function ended_at(packed) return select(7, struct.unpack(flow_record.END, packed)) end

local function queue_of(node) return select(4, struct.unpack(flow_record.NODE, node)) end

-- Return the fields, and the ends by job id.
local function expect(created_at, nodes, ends)
  local fields, right_ends, queues, last_at = {total = 0, kept = 0}, {}, {}, 0
  for _, count in ipairs(flow_record.COUNTS) do fields[count] = 0 end
  for job_id, node in pairs(nodes) do
    local packed, is_kept = expected_end(job_id, ends[job_id], created_at)
    fields.total, fields.kept = fields.total + 1, fields.kept + (is_kept and 1 or 0)
    queues[queue_of(node)] = true
    if packed then
      local count = flow_record.count_of(packed)
      right_ends[job_id], fields[count] = packed, fields[count] + 1
      last_at = math.max(last_at, ended_at(packed))
    end
  end
  local names = {}
  for queue in pairs(queues) do names[#names + 1] = queue end
  table.sort(names)
  return fields, right_ends, table.concat(names, flow_record.QUEUE_SEPARATOR), last_at
end

local function are_ends_equal(ends, right_ends)
  for job_id, packed in pairs(right_ends) do
    if ends[job_id] ~= packed then return false end
  end
  for job_id in pairs(ends) do
    if not right_ends[job_id] then return false end
  end
  return true
end

local function is_retention_right(id, kept)
  local removed_at = redis.call('ZSCORE', keys.flow_retention(), id)
  if kept > 0 then return not removed_at end
  return removed_at and tonumber(removed_at) <= clock.now_ms + flow_retention.KEPT_MS
end

local function is_listed(id, fields)
  local created_at = redis.call('ZSCORE', keys.flows(), id)
  return created_at and fields.created_at and tonumber(created_at) == tonumber(fields.created_at)
    and is_retention_right(id, tonumber(fields.kept or 0))
end

local function created_at_of(id, fields)
  return tonumber(fields.created_at or redis.call('ZSCORE', keys.flows(), id) or 0)
end

-- Return whether the fields of a flow are right.
function flow_repair.is_right(id)
  local fields, nodes, ends = flow_record.read(id)
  local expected, right_ends = expect(created_at_of(id, fields), nodes, ends)
  for field, number in pairs(expected) do
    if tonumber(fields[field] or 0) ~= number then return false end
  end
  return are_ends_equal(ends, right_ends) and is_listed(id, fields)
end

-- Write the fields of a flow as they must be. A flow without steps is removed.
function flow_repair.recount(id)
  local fields, nodes, ends = flow_record.read(id)
  if next(nodes) == nil then return flow_retention.remove(id) end
  local key, created_at = keys.flow(id), created_at_of(id, fields)
  local expected, right_ends, queues, last_at = expect(created_at, nodes, ends)
  flow_retention.keep(id)
  for field, number in pairs(expected) do redis.call('HSET', key, field, as_text(number)) end
  redis.call('HSET', key, 'queues', queues, 'created_at', as_text(created_at), 'ended_at', as_text(last_at))
  for job_id in pairs(ends) do
    if not right_ends[job_id] then redis.call('HDEL', key, 's' .. job_id) end
  end
  for job_id, packed in pairs(right_ends) do
    if ends[job_id] ~= packed then redis.call('HSET', key, 's' .. job_id, packed) end
  end
  redis.call('ZADD', keys.flows(), created_at, id)
  if expected.kept == 0 then flow_retention.leave(id) end
end

-- Restore an exported flow. `body`: name, created_at, steps with their places and ends ('': not ended). Ends of jobs
-- that an import has added already are those of their records. Returns 'added', 'existing' or 'id_conflict'.
function flow_repair.restore(id, body)
  local key = keys.flow(id)
  local name, created_at, is_partial = unpack(redis.call('HMGET', key, 'name', 'created_at', 'partial'))
  if created_at then
    if name ~= body.name or tonumber(created_at) ~= body.created_at then return 'id_conflict' end
    if not is_partial then return 'existing' end
  end
  flow_retention.keep(id)
  redis.call('HDEL', key, 'partial')
  redis.call('HSET', key, 'name', body.name, 'created_at', as_text(body.created_at))
  for _, step in ipairs(body.steps) do
    redis.call('HSET', key, 'n' .. step.id, step.node)
    if step.ended ~= '' then redis.call('HSETNX', key, 's' .. step.id, step.ended) end
  end
  flow_repair.recount(id)
  return 'added'
end

return flow_repair
