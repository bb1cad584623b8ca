-- Holders of unique keys, oldest first. Written immediately, so that later jobs of the same call see them.
local record = require 'jobs.record'
local keys = require 'keys'

local unique_keys = {}

function unique_keys.key_of(job) return keys.unique(job.queue, job.unique) end

function unique_keys.oldest_holder(job)
  local id = redis.call('ZRANGE', unique_keys.key_of(job), 0, 0)[1]
  return id and record.load(id)
end
function unique_keys.newest_holder(job)
  local id = redis.call('ZRANGE', unique_keys.key_of(job), -1, -1)[1]
  return id and record.load(id)
end
function unique_keys.hold(job)
  if job.unique ~= '' then redis.call('ZADD', unique_keys.key_of(job), job.sequence, job.id) end
end
function unique_keys.release(job)
  if job.unique ~= '' then redis.call('ZREM', unique_keys.key_of(job), job.id) end
end

return unique_keys
