-- Limit keys that may have their own cap (number=key). The first job of a key brings its cap. Later jobs do not change
-- it while the key has jobs that have not ended; set_cap does. It is removed a while after the last job.
local STATE = require('constants').STATE
local batch = require 'batch'
local clock = require 'clock'
local due = require 'due'
local record = require 'jobs.record'
local keys = require 'keys'
local limits = require 'limits.limits'
local script = require 'script'

local caps = {}

caps.IDLE_MS = 5000
-- met: limit keys that jobs entered or left in this call; true if a job entered.
script.on_start(function() caps.met = script.clean(caps.met) end)

function caps.each_key(job, visit)
  local own = record.links_of(job).limits
  if not string.find(own, '=', 1, true) then return end
  limits.each(own, function(limit_key)
    if string.find(limit_key, '^%d+=') then visit(limit_key) end
  end)
end

function caps.caps_key(limit_key) return keys.caps(limits.number_of(limit_key)) end

local function forget_cap(limit_key)
  redis.call('HDEL', caps.caps_key(limit_key), limit_key)
  redis.call('ZREM', keys.idle_caps(), limit_key)
end

-- An expired cap no longer counts, even if it was not removed yet.
function caps.is_over(limit_key)
  local idle_until = redis.call('ZSCORE', keys.idle_caps(), limit_key)
  return idle_until and tonumber(idle_until) <= clock.now_ms
end

local function note_entry(limit_key)
  if caps.met[limit_key] then return end
  caps.met[limit_key] = true
  if caps.is_over(limit_key) then forget_cap(limit_key) end
end

-- A job that has not ended enters a state. `job.away`: it has only left its previous state ('same'), or its limits have
-- changed since then ('moved').
function caps.enter(job)
  caps.each_key(job, function(limit_key)
    batch.z_add(keys.limited_jobs(limit_key), job.state, job.id)
    if job.away ~= 'same' then note_entry(limit_key) end
  end)
  job.away = nil
end

function caps.leave(job)
  caps.each_key(job, function(limit_key)
    batch.z_remove(keys.limited_jobs(limit_key), job.id)
    caps.met[limit_key] = caps.met[limit_key] or false
  end)
  job.away = 'same'
end

local function change_links(job, own)
  local links, is_there = record.links_of(job), not job.away and not record.is_ended(job)
  if is_there then caps.leave(job) end
  record.set_links(job, {parent = links.parent, on_failure = links.on_failure, limits = own, flow = links.flow})
  if job.away then job.away = 'moved' end
  if is_there then caps.enter(job) end
end

-- Change the limits of a job that is in no lane now (an overdue takeable job has left its lane).
function caps.change_limits(job, own)
  if record.links_of(job).limits == own then return end
  local is_holding = record.is_leased(job) and not record.has(job, 'retakeable')
  if is_holding then limits.free(job) end
  change_links(job, own)
  if is_holding then limits.hold(job) end
end

-- Set the cap that an added job brings, unless there is one. `terms`: I2 length of the limit key, limit key, I4 cap,
-- and data that callers keep with it.
function caps.set(terms)
  local limit_key, at = struct.unpack('>I2c0', terms)
  local is_set = redis.call('HSETNX', caps.caps_key(limit_key), limit_key, string.sub(terms, at)) == 1
  if is_set then limits.freed_now[limit_key] = true end
end
function caps.names_no_limit(terms) return terms and string.byte(terms, 1) + string.byte(terms, 2) == 0 end

-- Change a cap and the data kept with it. `cap` nil: it stays; `keeps_data`: stored data wins. Returns false if the key
-- has neither jobs nor a cap. A higher cap opens lanes; jobs above a lower cap run to their end.
function caps.change(limit_key, cap, data, keeps_data)
  local stored = not caps.is_over(limit_key) and redis.call('HGET', caps.caps_key(limit_key), limit_key)
  if not stored and redis.call('EXISTS', keys.limited_jobs(limit_key)) == 0 then return false end
  cap = cap or limits.cap_of(limit_key) or limits.definition_of(limit_key).amount
  if stored and keeps_data then data = string.sub(stored, 5) end
  redis.call('HSET', caps.caps_key(limit_key), limit_key, struct.pack('>I4', cap) .. data)
  limits.freed_now[limit_key] = true
  return true
end

-- Correct the marks of a limit key, by the jobs it has.
function caps.settle(limit_key, is_new)
  local capped = keys.capped_keys(limits.number_of(limit_key))
  if redis.call('EXISTS', keys.limited_jobs(limit_key)) == 1 then
    if is_new then
      redis.call('ZADD', capped, 0, limit_key)
      redis.call('ZREM', keys.idle_caps(), limit_key)
    end
  elseif redis.call('HEXISTS', caps.caps_key(limit_key), limit_key) == 1 then
    redis.call('ZADD', capped, 0, limit_key)
    redis.call('ZADD', keys.idle_caps(), 'NX', clock.now_ms + caps.IDLE_MS, limit_key)
  else
    redis.call('ZREM', capped, limit_key)
    redis.call('ZREM', keys.idle_caps(), limit_key)
  end
end

batch.after_flush(function()
  if next(caps.met) == nil then return end
  local now_met = caps.met
  caps.met = {}
  for limit_key, is_new in pairs(now_met) do caps.settle(limit_key, is_new) end
end)

-- Remove expired caps, for the janitor. Returns how many were checked.
function caps.remove_idle(most)
  local idle = due.members(keys.idle_caps(), most)
  for _, limit_key in ipairs(idle) do
    if redis.call('EXISTS', keys.limited_jobs(limit_key)) == 0 then forget_cap(limit_key) end
    caps.settle(limit_key, true)
  end
  return #idle
end

function caps.key_of(limit_key) return string.match(limit_key, '^%d+=(.*)$') end

-- Return the jobs and the cap of a limit key, as callers get them.
function caps.describe(limit_key)
  local function count(low, high) return redis.call('ZCOUNT', keys.limited_jobs(limit_key), low, high) end
  return {
    caps.key_of(limit_key),
    count(STATE.queued, STATE.queued),
    count(STATE.scheduled, STATE.scheduled) + count(STATE.waiting, STATE.waiting)
      + count(STATE.suspended, STATE.suspended),
    count(STATE.dispatched, STATE.running),
    redis.call('HGET', caps.caps_key(limit_key), limit_key) or '',
  }
end

return caps
