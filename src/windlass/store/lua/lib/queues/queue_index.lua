-- Indexed payload fields of queues. Callers compute the entries of each payload (core/limits/payload_index.py); a
-- change of the fields counts as a change of the limits, so that they match new payloads with the present fields.
local job_tags = require 'jobs.job_tags'
local keys = require 'keys'
local script = require 'script'

local queue_index = {}

local FIELDS_BYTES_MAX = 4096 -- of the fields of a queue's producers that are remembered
local noted -- queue -> fields of producers, as stored
script.on_start(function() noted = script.clean(noted) end)

function queue_index.is_set(queue) return redis.call('HEXISTS', keys.queue(queue), 'index') == 1 end

-- Record that the property `index` of a queue has changed.
function queue_index.note_change(queue)
  redis.call(queue_index.is_set(queue) and 'SADD' or 'SREM', keys.indexed_queues(), queue)
  redis.call('INCR', keys.limits_version())
end

-- Return {queue, fields, ...} of all queues with indexed fields.
function queue_index.read_all()
  local found = {}
  for _, queue in ipairs(redis.call('SMEMBERS', keys.indexed_queues())) do
    found[#found + 1] = queue
    found[#found + 1] = redis.call('HGET', keys.queue(queue), 'index') or ''
  end
  return found
end

local function includes(fields, field) return string.find('\2' .. fields .. '\2', '\2' .. field .. '\2', 1, true) end

-- Remember which fields the producer of a new job indexes, so that searches know them.
function queue_index.note_fields(job)
  if not job_tags.has_fields(job.tags) then return end
  local known = noted[job.queue] or redis.call('HGET', keys.queue(job.queue), 'task_index') or ''
  local fields = known
  job_tags.each_field(job.tags, function(field)
    if not includes(fields, field) then fields = fields == '' and field or fields .. '\2' .. field end
  end)
  if #fields > FIELDS_BYTES_MAX then fields = known end
  if fields ~= known then redis.call('HSET', keys.queue(job.queue), 'task_index', fields) end
  noted[job.queue] = fields
end

return queue_index
