-- Stream of a job: values that its code has written, in order. A run that is repeated writes no value twice: the values
-- outside of steps are counted from the beginning of the code, and a call that is repeated is known by its number.
local DURABLE = require('constants').DURABLE
local EVENT = require('constants').EVENT
local batch = require 'batch'
local clock = require 'clock'
local steps = require 'durable.steps'
local events = require 'events'
local keys = require 'keys'

local stream = {}

local ENTRY = '>I6I4' -- instant, attempt; the value with its codec follows, or nothing where a new attempt begins

-- Return how many of the values were written before.
local function count_written(found, token, sequence, outside)
  local written = found.token == token and found.sequence - sequence or 0
  if outside ~= '' then written = math.max(written, found.outside - tonumber(outside)) end
  return math.max(0, written)
end

local function load_counters(job)
  local found = redis.call('HMGET', keys.durable(job.id), 'x', 'xb', 'xt', 'xs', 'xa', 'o', 'r')
  return {
    position = tonumber(found[1] or 0), bytes = tonumber(found[2] or 0), token = tonumber(found[3] or 0),
    sequence = tonumber(found[4] or 0), attempt = found[5] or '', outside = tonumber(found[6] or 0),
    round = found[7] or '0',
  }
end

local function append(job, at, value)
  local entry = struct.pack(ENTRY, clock.now_ms, job.attempt) .. value
  redis.call('XADD', keys.stream(job.id), at .. '-0', 'e', entry)
  return #entry
end

local function save_counters(job, found, fields)
  local grown = fields.bytes - found.bytes
  redis.call('HSET', keys.durable(job.id), 'x', fields.position, 'xb', fields.bytes, 'xt', job.token,
    'xs', fields.sequence, 'xa', fields.attempt, 'o', fields.outside)
  batch.increment(keys.queue(job.queue), 'bytes', grown)
end

-- Append values to the stream of a held job. Returns a refusal or the last position.
function stream.write(job, sequence, outside, values)
  local found = load_counters(job)
  local written = count_written(found, job.token, sequence, outside)
  if written >= #values then return found.position end
  local position, bytes, attempt = found.position, found.bytes, job.attempt .. ':' .. found.round
  local grown = 0
  for i = written + 1, #values do grown = grown + #values[i] end
  if position + #values - written > DURABLE.stream_values_max or bytes + grown > DURABLE.stream_bytes_max then
    return 'stream_full'
  end
  steps.mark_durable(job)
  if position > 0 and attempt ~= found.attempt then
    position = position + 1
    bytes = bytes + append(job, position, '')
  end
  for i = written + 1, #values do
    position = position + 1
    bytes = bytes + append(job, position, values[i])
  end
  save_counters(job, found, {
    position = position, bytes = bytes, attempt = attempt, sequence = sequence + #values,
    outside = outside ~= '' and math.max(found.outside, tonumber(outside) + #values) or found.outside,
  })
  events.announce(EVENT.streamed, job, '')
  return position
end

return stream
