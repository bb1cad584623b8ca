-- Tombstones: the ids of finished and failed jobs whose records were removed, with the queues that they had. A job
-- leaves one if it was enqueued with `tombstone_ms`. They are bounded by that time and by number.
local STATE = require('constants').STATE
local clock = require 'clock'
local due = require 'due'
local record = require 'jobs.record'
local keys = require 'keys'

local tombstones = {}

local TOMBSTONES_MAX = 1000000 -- per partition
local TRIMMED_AT_ONCE = 2 -- per addition: the number falls to the bound

-- Return how long the id of a job is remembered; 0 if a library of an earlier version has rewritten its policy.
local function lasting_ms(job)
  if #job.policy < record.POLICY_BYTES + 6 then return 0 end
  return (struct.unpack('>I6', job.policy, record.POLICY_BYTES + 1))
end

local function forget(ids)
  if #ids == 0 then return end
  redis.call('ZREM', keys.tombstones(), unpack(ids))
  redis.call('HDEL', keys.tombstone_queues(), unpack(ids))
end

-- Remember an id until an instant. Those that would be forgotten first make room.
function tombstones.add(id, queue, until_at)
  redis.call('ZADD', keys.tombstones(), until_at, id)
  redis.call('HSET', keys.tombstone_queues(), id, queue)
  if redis.call('ZCARD', keys.tombstones()) > TOMBSTONES_MAX then
    forget(redis.call('ZRANGE', keys.tombstones(), 0, TRIMMED_AT_ONCE - 1))
  end
end

-- Called when the record of a job with `leaves_tombstone` is removed. A cancelled job leaves none.
function tombstones.leave(job)
  if job.state ~= STATE.finished and job.state ~= STATE.failed then return end
  local for_ms = lasting_ms(job)
  if for_ms > 0 then tombstones.add(job.id, job.queue, clock.now_ms + for_ms) end
end

-- Return the queue of a removed job; nil: there is no tombstone.
function tombstones.queue_of(id)
  local until_at = redis.call('ZSCORE', keys.tombstones(), id)
  if not until_at or tonumber(until_at) <= clock.now_ms then return nil end
  return redis.call('HGET', keys.tombstone_queues(), id) or nil
end

-- Remove up to `most` tombstones whose time is over. Returns their number.
function tombstones.remove_old(most)
  local ids = due.members(keys.tombstones(), most)
  forget(ids)
  return #ids
end

return tombstones
