-- Checks of limit keys with their own caps: the marks of each agree with its jobs.
local clock = require 'clock'
local findings = require 'doctor.findings'
local keys = require 'keys'
local caps = require 'limits.caps'
local limits = require 'limits.limits'

local checkup_caps = {}

local CLOCKS_DIFFER_MS = 60000 -- between a node and its successor after a failover

local function settle_again(limit_key)
  return function()
    caps.settle(limit_key, true)
    limits.freed_now[limit_key] = true
  end
end

local function has_jobs(limit_key) return redis.call('EXISTS', keys.limited_jobs(limit_key)) == 1 end
local function has_cap(limit_key) return redis.call('HEXISTS', caps.caps_key(limit_key), limit_key) == 1 end
local function is_idle(limit_key) return redis.call('ZSCORE', keys.idle_caps(), limit_key) ~= false end
local function is_capped(limit_key)
  return redis.call('ZSCORE', keys.capped_keys(limits.number_of(limit_key)), limit_key) == '0'
end

function checkup_caps.check_limited_jobs(limit_key)
  if is_capped(limit_key) and not is_idle(limit_key) then return end
  findings.report_key('cap_wrong', 'under:' .. limit_key, settle_again(limit_key))
end

function checkup_caps.check_capped_key(_, limit_key)
  if has_jobs(limit_key) or has_cap(limit_key) then return end
  findings.report_key('ghost', 'keyed:' .. limits.number_of(limit_key), settle_again(limit_key))
end

function checkup_caps.check_cap(number, limit_key, cap)
  if #cap < 4 or limits.number_of(limit_key) ~= number then
    findings.report_key('cap_wrong', 'caps:' .. number, function()
      redis.call('HDEL', keys.caps(number), limit_key)
      if limits.number_of(limit_key) then settle_again(limit_key)() end
    end)
  elseif is_idle(limit_key) == has_jobs(limit_key) or not is_capped(limit_key) then
    findings.report_key('cap_wrong', 'caps:' .. number, settle_again(limit_key))
  end
end

function checkup_caps.check_idle_cap(limit_key, idle_until)
  if not has_cap(limit_key) or has_jobs(limit_key) then
    findings.report_key('ghost', 'idle_caps', settle_again(limit_key))
  elseif idle_until > clock.now_ms + caps.IDLE_MS + CLOCKS_DIFFER_MS then
    findings.report_key('cap_wrong', 'idle_caps', function()
      redis.call('ZADD', keys.idle_caps(), clock.now_ms + caps.IDLE_MS, limit_key)
    end)
  end
end

return checkup_caps
