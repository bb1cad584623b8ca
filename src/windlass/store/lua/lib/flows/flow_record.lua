-- Record of a flow: the graph of its jobs, how each of them ended, and their counts. It outlives the records of the
-- jobs. Hash flow:<id> with the fields
--   n + job id  place in the graph, written when the job is added
--   s + job id  end, written when the job ends, and removed when it is queued or waits again
--   name, created_at, queues (joined by \2), total, kept (records that exist), ended_at (last end), and the numbers of
--   steps by their end: finished, failed, cancelled, consequences, deleted
-- Every function ignores jobs without a flow, and jobs that their flow does not know. Writes are not batched: a flow
-- may be removed later in the same call, and a pending write would create it again.
local STATE = require('constants').STATE
local clock = require 'clock'
local flow_retention = require 'flows.flow_retention'
local record = require 'jobs.record'
local keys = require 'keys'
local script = require 'script'

local flow_record = {}

flow_record.NODE = '>I6BBBc0I2c0Bc0' -- sequence, joins, policy for failures, queue, task, step; ids it waits for follow
flow_record.END = '>BBI4I4I6I6I6' -- state (0: deleted), consequence, attempt, progress, created, started, ended
flow_record.DELETED = 0
flow_record.QUEUE_SEPARATOR = '\2'
local ID_BYTES = 16
flow_record.COUNTS = {'finished', 'failed', 'cancelled', 'consequences', 'deleted'}
local COUNT_OF_STATE = {
  [flow_record.DELETED] = 'deleted', [STATE.finished] = 'finished', [STATE.failed] = 'failed',
  [STATE.cancelled] = 'cancelled',
}

local call, sub, pack, unpack_bytes
script.once(function()
  call, sub, pack, unpack_bytes = redis.call, string.sub, struct.pack, struct.unpack
end)

local written -- flows that this call has added jobs to: the queues of each, as a set and joined
script.on_start(function() written = script.clean(written) end)

-- Return the flow of a job and the rest of its reference, or nil.
function flow_record.id_of(job)
  if job.links == '' then return nil end
  local flow = record.links_of(job).flow
  if flow == '' then return nil end
  return sub(flow, 1, 16), sub(flow, 17)
end

-- Return the name of the field that counts steps with this end.
function flow_record.count_of(packed)
  local state, is_consequence = unpack_bytes('>BB', packed)
  return is_consequence == 1 and 'consequences' or COUNT_OF_STATE[state]
end

local function knows(key, job) return call('HEXISTS', key, 'n' .. job.id) == 1 end

-- Return whether a job has no flow, or a flow that knows it.
function flow_record.is_known(job)
  local id = flow_record.id_of(job)
  return not id or knows(keys.flow(id), job)
end

-- Return whether a new job cannot join its flow, because an earlier call has created the flow.
function flow_record.is_closed(job)
  local id = flow_record.id_of(job)
  return id ~= nil and not written[id] and call('EXISTS', keys.flow(id)) == 1
end

-- Return the fields of a flow, and the places and ends of its jobs by id; nil: there is no such flow.
function flow_record.read(id)
  local found = call('HGETALL', keys.flow(id))
  if #found == 0 then return nil end
  local fields, nodes, ends = {}, {}, {}
  for i = 1, #found, 2 do
    local field, value = found[i], found[i + 1]
    local kind, job_id = sub(field, 1, 1), sub(field, 2)
    if #job_id == ID_BYTES and kind == 'n' then
      nodes[job_id] = value
    elseif #job_id == ID_BYTES and kind == 's' then
      ends[job_id] = value
    else
      fields[field] = value
    end
  end
  return fields, nodes, ends
end

local function list_queue(id, key, queue)
  local queues = written[id]
  if not queues then
    queues = {joined = call('HGET', key, 'queues') or ''}
    for known in string.gmatch(queues.joined, '[^' .. flow_record.QUEUE_SEPARATOR .. ']+') do queues[known] = true end
    written[id] = queues
  end
  if queues[queue] then return end
  queues[queue] = true
  queues.joined = queues.joined == '' and queue or queues.joined .. flow_record.QUEUE_SEPARATOR .. queue
  call('HSET', key, 'queues', queues.joined)
end

local function begin(id, key, name, created_at)
  if call('HSETNX', key, 'created_at', string.format('%.0f', created_at)) == 0 then return end
  call('HSET', key, 'name', name)
  call('ZADD', keys.flows(), created_at, id)
end

-- Return why a new job cannot join its flow, or nil. A flow is created by one call: a new job cannot join a flow that
-- exists, which may have jobs in queues that the caller may not use. `begun`: flows of this list of jobs, to which the
-- flow is added; nil: flows that this call has written.
function flow_record.refusal_of(job, begun)
  local id = flow_record.id_of(job)
  if not id or (begun or written)[id] then return nil end
  if begun then begun[id] = true end
  return call('EXISTS', keys.flow(id)) == 1 and 'flow_exists' or nil
end

-- Add a new job to its flow. `after`: ids of the jobs that it waits for, joined.
function flow_record.add(job, after)
  local id, rest = flow_record.id_of(job)
  if not id then return end
  local key, name = keys.flow(id), unpack_bytes('Bc0', rest)
  if not written[id] then begin(id, key, name, job.created_at) end
  list_queue(id, key, job.queue)
  local step = sub(rest, #name + 2)
  local node = pack(flow_record.NODE, job.sequence, record.has(job, 'joins') and 1 or 0,
    record.links_of(job).on_failure, #job.queue, job.queue, #job.name, job.name, #step, step)
  if call('HSET', key, 'n' .. job.id, node .. after) == 1 then call('HINCRBY', key, 'total', 1) end
  call('HINCRBY', key, 'kept', 1)
end

local function forget_end(key, job)
  local known = call('HGET', key, 's' .. job.id)
  if not known then return end
  call('HDEL', key, 's' .. job.id)
  call('HINCRBY', key, flow_record.count_of(known), -1)
end

-- Return the end of a job as it is stored.
function flow_record.pack_end(job)
  local state = record.is_ended(job) and job.state or flow_record.DELETED
  local is_consequence = state ~= flow_record.DELETED and state ~= STATE.finished
    and record.has(job, 'ended_by_member')
  return pack(flow_record.END, state, is_consequence and 1 or 0, job.attempt, job.progress, job.created_at,
    job.started_at, state == flow_record.DELETED and clock.now_ms or job.ended_at)
end

local function write_end(key, job)
  forget_end(key, job)
  local packed = flow_record.pack_end(job)
  call('HSET', key, 's' .. job.id, packed, 'ended_at', string.format('%.0f', clock.now_ms))
  call('HINCRBY', key, flow_record.count_of(packed), 1)
end

-- Note that a job has ended, or that its end state has changed.
function flow_record.note_end(job)
  local id = flow_record.id_of(job)
  if id and knows(keys.flow(id), job) then write_end(keys.flow(id), job) end
end

-- Note that a job that had ended is queued again, or waits again.
function flow_record.reopen(job)
  local id = flow_record.id_of(job)
  if id then forget_end(keys.flow(id), job) end
end

-- Note that the record of a job is removed. A job that has not ended counts as deleted.
function flow_record.drop(job)
  local id = flow_record.id_of(job)
  if not id then return end
  local key = keys.flow(id)
  if not knows(key, job) then return end
  if not record.is_ended(job) then write_end(key, job) end
  if call('HINCRBY', key, 'kept', -1) == 0 then flow_retention.leave(id) end
end

-- Add a job that exists to its flow: an import has added its record, or the flow has lost it. A flow that does not
-- exist is created from what the job says of it, and marked as partial: the import may know more.
function flow_record.restore(job, after)
  local id = flow_record.id_of(job)
  if not id then return end
  local key = keys.flow(id)
  flow_retention.keep(id)
  if call('EXISTS', key) == 0 then call('HSET', key, 'partial', '1') end
  if knows(key, job) then call('HINCRBY', key, 'kept', 1) else flow_record.add(job, after) end
  if record.is_ended(job) then write_end(key, job) else forget_end(key, job) end
end

return flow_record
