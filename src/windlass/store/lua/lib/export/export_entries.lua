-- Parts that an export reads of each kind of entry, and the weight of reading them.
local dependencies = require 'dependencies.dependencies'
local record = require 'jobs.record'
local unique_keys = require 'jobs.unique_keys'
local keys = require 'keys'

local export_entries = {}

export_entries.WEIGHT_MAX = 4194304 -- bytes of one answer, approximately
local MEMBER_WEIGHT = 1024 -- of reading one member
local MEMBERS_PER_PAGE = 500

-- Return a page of the jobs that a job waits for: {id + queue, ...}, the next cursor ('': none), members read.
function export_entries.awaited_page(id, cursor)
  local page = redis.call('ZSCAN', keys.members(id), cursor, 'COUNT', MEMBERS_PER_PAGE)
  local found = {}
  for i = 1, #page[2], 2 do
    local member = record.load(page[2][i])
    if not (member and dependencies.is_child_of(member, id)) then
      found[#found + 1] = page[2][i] .. (member and member.queue or '')
    end
  end
  return found, page[1] ~= '0' and page[1] or '', #page[2] / 2
end

-- Return the fields of a job's durable state, the entries of its stream, and their weight.
local function read_durable(job)
  if not record.has(job, 'durable') then return {}, {}, 0 end
  local fields, stream, weight = redis.call('HGETALL', keys.durable(job.id)), {}, 0
  for i, entry in ipairs(redis.call('XRANGE', keys.stream(job.id), '-', '+')) do
    stream[i] = entry[2][2]
    weight = weight + #stream[i]
  end
  for _, field in ipairs(fields) do weight = weight + #field end
  return fields, stream, weight
end

export_entries.EXPORT = {}

function export_entries.EXPORT.j(id)
  local raw = redis.call('GET', keys.job(id))
  if not raw then return nil, 1 end
  local job = record.decode(id, raw)
  local attempts = record.has(job, 'has_attempts') and redis.call('LRANGE', keys.attempts(id), 0, -1) or {}
  local logs = record.has(job, 'has_logs') and redis.call('LRANGE', keys.log(id), 0, -1) or {}
  local result = record.has(job, 'has_outcome') and redis.call('GET', keys.result(id)) or ''
  local is_shared = job.unique ~= '' and redis.call('ZCARD', unique_keys.key_of(job)) > 1
  local parent = dependencies.parent_of(job)
  local awaited, cursor, members_read = {}, '', 0
  if record.has(job, 'has_members') then awaited, cursor, members_read = export_entries.awaited_page(id, '0') end
  local weight = #raw + #result + members_read * MEMBER_WEIGHT
  for _, attempt in ipairs(attempts) do weight = weight + #attempt end
  for _, entry in ipairs(logs) do weight = weight + #entry end
  local durable, stream, durable_weight = read_durable(job)
  weight = weight + durable_weight
  return {
    raw, attempts, logs, result, redis.call('ZSCORE', keys.retention(), id) or '', is_shared and 1 or 0,
    parent and parent.queue or '', cursor, awaited, durable, stream,
  }, weight
end

function export_entries.EXPORT.b(callback)
  local fields = redis.call('HGETALL', keys.callback(callback))
  if #fields == 0 then return nil, 1 end
  local weight = 0
  for _, field in ipairs(fields) do weight = weight + #field end
  local score = redis.call('ZSCORE', keys.pending_callbacks(), callback)
  if score then return {'owed', score, fields}, weight end
  return {'given_up', redis.call('ZSCORE', keys.given_up(), callback) or '0', fields}, weight
end

function export_entries.EXPORT.s(name)
  local fields = redis.call('HGETALL', keys.schedule(name))
  if #fields == 0 then return nil, 1 end
  return {fields, redis.call('LRANGE', keys.schedule_jobs(name), 0, -1)}, 4096
end

function export_entries.EXPORT.q(queue)
  local fields = redis.call('HGETALL', keys.queue(queue))
  if #fields == 0 then return nil, 1 end
  local pauses, weights = redis.call('HGETALL', keys.pauses(queue)), redis.call('HGETALL', keys.weights(queue))
  return {fields, pauses, weights}, 4096 + 100 * (#pauses + #weights)
end

function export_entries.EXPORT.t(id)
  local until_at, queue = redis.call('ZSCORE', keys.tombstones(), id), redis.call('HGET', keys.tombstone_queues(), id)
  if not until_at or not queue then return nil, 1 end
  return {queue, until_at}, 100
end

function export_entries.EXPORT.f(id)
  local fields = redis.call('HGETALL', keys.flow(id))
  if #fields == 0 then return nil, 1 end
  local weight = 0
  for _, field in ipairs(fields) do weight = weight + #field end
  return fields, weight
end

return export_entries
