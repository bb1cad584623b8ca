-- uses: keys, clock, batch, record, limits
-- Limit keys that may have their own cap (number=key). The first job of a key brings its cap. The cap does not change
-- while the key has jobs that have not ended, and is removed a while after the last one.
local IDLE_MS = 5000
local met -- limit keys that jobs entered or left in this call: true if a job entered
at_start[#at_start + 1] = function() met = clean(met) end

local function each_key(r, visit)
  local limits = links_of(r).limits
  if not string.find(limits, '=', 1, true) then return end
  each_limit(limits, function(holdup)
    if string.find(holdup, '^%d+=') then visit(holdup) end
  end)
end

local function caps_key(holdup) return P .. 'caps:' .. limit_number(holdup) end

local function forget_cap(holdup)
  redis.call('HDEL', caps_key(holdup), holdup)
  redis.call('ZREM', P .. 'idle_caps', holdup)
end

-- An expired cap no longer counts, even if it was not removed yet.
local function is_over(holdup)
  local idle_until = redis.call('ZSCORE', P .. 'idle_caps', holdup)
  return idle_until and tonumber(idle_until) <= now_ms
end

local function arrive(holdup)
  if met[holdup] then return end
  met[holdup] = true
  if is_over(holdup) then forget_cap(holdup) end
end

-- A job that has not ended enters a state. `r.away`: it has only left its previous state ('same'), or its limits have
-- changed since then ('moved').
local function come_under(r)
  each_key(r, function(holdup)
    z_add(P .. 'under:' .. holdup, r.state, r.id)
    if r.away ~= 'same' then arrive(holdup) end
  end)
  r.away = nil
end

local function leave_under(r)
  each_key(r, function(holdup)
    z_drop(P .. 'under:' .. holdup, r.id)
    met[holdup] = met[holdup] or false
  end)
  r.away = 'same'
end

local function change_links(r, limits)
  local links, is_there = links_of(r), not r.away and not is_ended(r)
  if is_there then leave_under(r) end
  set_links(r, {parent = links.parent, on_failure = links.on_failure, limits = limits})
  if r.away then r.away = 'moved' end
  if is_there then come_under(r) end
end

-- Change the limits of a job that is in no lane now (an overdue takeable job has left its lane).
local function change_limits(r, limits)
  if links_of(r).limits == limits then return end
  local is_holding = is_leased(r) and not has(r, 'retakeable')
  if is_holding then free_limits(r) end
  change_links(r, limits)
  if is_holding then hold_limits(r) end
end

-- Set the cap that an added job brings, unless there is one. `terms`: I2 length of the limit key, limit key, I4 cap,
-- and data that callers keep with it.
local function give_cap(terms)
  local holdup, at = struct.unpack('>I2c0', terms)
  if redis.call('HSETNX', caps_key(holdup), holdup, string.sub(terms, at)) == 1 then freed_now[holdup] = true end
end
local function lacks_limit(terms) return terms and string.byte(terms, 1) + string.byte(terms, 2) == 0 end

-- Correct the marks of a limit key, by the jobs it has.
local function settle_key(holdup, is_new)
  local keyed = P .. 'keyed:' .. limit_number(holdup)
  if redis.call('EXISTS', P .. 'under:' .. holdup) == 1 then
    if is_new then
      redis.call('ZADD', keyed, 0, holdup)
      redis.call('ZREM', P .. 'idle_caps', holdup)
    end
  elseif redis.call('HEXISTS', caps_key(holdup), holdup) == 1 then
    redis.call('ZADD', keyed, 0, holdup)
    redis.call('ZADD', P .. 'idle_caps', 'NX', now_ms + IDLE_MS, holdup)
  else
    redis.call('ZREM', keyed, holdup)
    redis.call('ZREM', P .. 'idle_caps', holdup)
  end
end

after_flush[#after_flush + 1] = function()
  if next(met) == nil then return end
  local now_met = met
  met = {}
  for holdup, is_new in pairs(now_met) do settle_key(holdup, is_new) end
end

-- Remove expired caps, for the janitor. Returns how many were checked.
local function forget_idle_caps(most)
  local due = redis.call('ZRANGEBYSCORE', P .. 'idle_caps', '-inf', now_ms, 'LIMIT', 0, most)
  for _, holdup in ipairs(due) do
    if redis.call('EXISTS', P .. 'under:' .. holdup) == 0 then forget_cap(holdup) end
    settle_key(holdup, true)
  end
  return #due
end

local function key_of(holdup) return string.match(holdup, '^%d+=(.*)$') end

-- Return the jobs and the cap of a limit key, as callers get them.
local function standing_of(holdup)
  local jobs = P .. 'under:' .. holdup
  return {
    key_of(holdup), redis.call('ZCOUNT', jobs, STATE.queued, STATE.queued),
    redis.call('ZCOUNT', jobs, STATE.scheduled, STATE.scheduled) + redis.call('ZCOUNT', jobs, STATE.waiting, STATE.waiting),
    redis.call('ZCOUNT', jobs, STATE.dispatched, STATE.running), redis.call('HGET', caps_key(holdup), holdup) or '',
  }
end
