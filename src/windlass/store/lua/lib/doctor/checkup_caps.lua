-- uses: keys, clock, batch, limits, caps, findings
-- Checks of limit keys with their own caps: the marks of each agree with its jobs.

local CLOCKS_DIFFER_MS = 60000 -- between a node and its successor after a failover

local function settle_again(holdup)
  return function()
    settle_key(holdup, true)
    freed_now[holdup] = true
  end
end

local function has_jobs(holdup) return redis.call('EXISTS', P .. 'under:' .. holdup) == 1 end
local function has_cap(holdup) return redis.call('HEXISTS', caps_key(holdup), holdup) == 1 end
local function is_idle(holdup) return redis.call('ZSCORE', P .. 'idle_caps', holdup) ~= false end
local function is_keyed(holdup) return redis.call('ZSCORE', P .. 'keyed:' .. limit_number(holdup), holdup) == '0' end

local function check_under(holdup)
  if is_keyed(holdup) and not is_idle(holdup) then return end
  find('cap_wrong', key_example('under:' .. holdup), settle_again(holdup))
end

local function check_keyed(_, holdup)
  if has_jobs(holdup) or has_cap(holdup) then return end
  find('ghost', key_example('keyed:' .. limit_number(holdup)), settle_again(holdup))
end

local function check_cap(number, holdup, cap)
  if #cap < 4 or limit_number(holdup) ~= number then
    find('cap_wrong', key_example('caps:' .. number), function()
      redis.call('HDEL', P .. 'caps:' .. number, holdup)
      if limit_number(holdup) then settle_again(holdup)() end
    end)
  elseif is_idle(holdup) == has_jobs(holdup) or not is_keyed(holdup) then
    find('cap_wrong', key_example('caps:' .. number), settle_again(holdup))
  end
end

local function check_idle_cap(holdup, idle_until)
  if not has_cap(holdup) or has_jobs(holdup) then
    find('ghost', key_example('idle_caps'), settle_again(holdup))
  elseif idle_until > now_ms + IDLE_MS + CLOCKS_DIFFER_MS then
    find('cap_wrong', key_example('idle_caps'), function() redis.call('ZADD', P .. 'idle_caps', now_ms + IDLE_MS, holdup) end)
  end
end
