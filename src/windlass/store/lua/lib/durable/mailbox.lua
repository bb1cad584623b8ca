-- Signals: kept in order until a wait receives them. Each is assigned to one wait, in the call that stores its value as
-- the result of that wait.
local STEP_KIND = require('constants').STEP_KIND
local STEP_STATUS = require('constants').STEP_STATUS
local DURABLE = require('constants').DURABLE
local clock = require 'clock'
local state = require 'durable.state'
local steps = require 'durable.steps'
local record = require 'jobs.record'
local keys = require 'keys'

local mailbox = {}

local UNREAD = '>I4Bc0' -- number, name; one after the other in field q
local ID_BYTES = 16

-- Return {number, name, first byte, last byte} of each unread signal, in order.
local function list_unread(job)
  local order, found, at = redis.call('HGET', keys.durable(job.id), 'q') or '', {}, 1
  while at <= #order do
    local number, name, following = struct.unpack(UNREAD, order, at)
    found[#found + 1] = {number = number, name = name, first = at, last = following - 1}
    at = following
  end
  return found, order
end

-- Return the oldest unread signal of a name and the order of all, or nil.
local function find_oldest(job, name)
  if not record.has(job, 'durable') then return nil end
  local unread, order = list_unread(job)
  for _, entry in ipairs(unread) do
    if entry.name == name then return entry, order end
  end
  return nil
end

local function remove(job, entry, order, stored)
  local key = keys.durable(job.id)
  redis.call('HSET', key, 'q', string.sub(order, 1, entry.first - 1) .. string.sub(order, entry.last + 1))
  redis.call('HDEL', key, 'm' .. entry.number)
  state.count_bytes(job, -#stored)
end

-- Store a value as the result of a wait for a signal.
function mailbox.answer(job, name, signal, known, value)
  return steps.write(job, name, known, {
    kind = STEP_KIND.signal, status = STEP_STATUS.done, tries = 1, begun_at = known and known.begun_at,
    ended_at = clock.now_ms, detail = signal, value = value,
  })
end

-- Assign the oldest unread signal of a name to a wait. Returns a refusal, or nil and the stored step (nil: no signal).
function mailbox.receive(job, name, signal, known)
  local entry, order = find_oldest(job, signal)
  if not entry then return nil, nil end
  local stored = redis.call('HGET', keys.durable(job.id), 'm' .. entry.number)
  local value = string.sub(stored, 7) -- behind the instant of its arrival
  local refused, step = mailbox.answer(job, name, signal, known, value)
  if refused then return refused end -- it stays unread
  remove(job, entry, order, stored)
  return nil, step
end

-- Return whether a request was handled before.
function mailbox.is_repeated(job, request_id)
  if request_id == '' or not record.has(job, 'durable') then return false end
  local key = keys.durable(job.id)
  local seen = redis.call('HGET', key, 'i') or ''
  for at = 1, #seen, ID_BYTES do
    if string.sub(seen, at, at + ID_BYTES - 1) == request_id then return true end
  end
  return redis.call('HEXISTS', key, 'u' .. request_id) == 1
end

-- Remember a request that was handled. A refused request may be repeated. The id of a link for one signal is
-- remembered as long as the job, others among the last ones.
function mailbox.remember(job, request_id, is_one_time)
  if request_id == '' then return end
  local key = keys.durable(job.id)
  if is_one_time then return redis.call('HSET', key, 'u' .. request_id, 1) end
  local seen = redis.call('HGET', key, 'i') or ''
  redis.call('HSET', key, 'i', string.sub(seen .. request_id, -ID_BYTES * DURABLE.signals_max))
end

function mailbox.is_full(job) return #list_unread(job) >= DURABLE.signals_max end

-- Keep a signal until a wait asks for it.
function mailbox.keep(job, name, value)
  local key = keys.durable(job.id)
  local number, stored = redis.call('HINCRBY', key, 'g', 1), struct.pack('>I6', clock.now_ms) .. value
  redis.call('HSET', key, 'm' .. number, stored)
  local order = redis.call('HGET', key, 'q') or ''
  redis.call('HSET', key, 'q', order .. struct.pack(UNREAD, number, #name, name))
  state.count_bytes(job, #stored)
end

return mailbox
