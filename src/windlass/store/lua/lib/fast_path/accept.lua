-- Fast path of accept: one simple job (simple.lua), as a worker accepts the job that came with its wakeup.
local DEFAULT = require('constants').DEFAULT
local clock = require 'clock'
local simple = require 'fast_path.simple'
local index = require 'jobs.index'
local record = require 'jobs.record'
local keys = require 'keys'
local lease_header = require 'leases.lease_header'
local script = require 'script'

local fast_accept = {}

local call
script.once(function() call = redis.call end)

local function lease_ms_of(names, strings, lease_ms)
  if lease_ms > 0 then return lease_ms end
  if strings.lease_ms > 0 then return strings.lease_ms end
  return tonumber(call('HGET', names.queue, 'lease_ms') or DEFAULT.lease_ms)
end

function fast_accept.accept(arguments, lease_ms, id, token)
  if #arguments ~= 4 then return nil end
  local key = keys.job(id)
  local job, strings = simple.dispatched_job(call('GETRANGE', key, 0, record.PEEK_BYTES - 1), tonumber(token))
  if not job then return nil end
  local names = keys.kept_of(strings.queue)
  if call('EXISTS', names.followed, names.push_full) > 0 then return nil end
  lease_ms = lease_ms_of(names, strings, tonumber(lease_ms))
  if lease_ms >= record.FOREVER_MS then return nil end
  lease_header.accept(job, clock.now_ms + lease_ms)
  call('SETRANGE', key, 0, record.pack_header(job))
  local at = strings.timeout_ms > 0 and math.min(job.deadline, clock.now_ms + strings.timeout_ms) or job.deadline
  call('ZADD', names.running, at, id)
  if job.worker ~= record.NO_ID then call('ZADD', keys.worker_jobs(job.worker), clock.now_ms, id) end
  index.lower_timer('lease', strings.queue, at)
  return {string.format('%.0f', job.deadline)}
end

return fast_accept
