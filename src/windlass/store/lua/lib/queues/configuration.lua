-- Configuration of a queue, read once per call. Fields that were never set have the defaults of core/queue.py.
local DEFAULT = require('constants').DEFAULT
local FIXED_LEASE_PREFIX = require('constants').FIXED_LEASE_PREFIX
local keys = require 'keys'
local script = require 'script'

local configuration = {}

configuration.FIELDS = {
  'lease_ms', 'max_length', 'max_bytes', 'history_length', 'history_bytes', 'retention_ms', 'name_lanes', 'aging_ms',
  'fair_share', 'lease_renewal',
}
local configs
script.on_start(function() configs = {} end)

function configuration.of(queue)
  local config = configs[queue]
  if config then return config end
  local values = redis.call('HMGET', keys.queue(queue), 'bytes', 'paused', 'pauses', 'relane', 'hidden',
    unpack(configuration.FIELDS))
  config = {
    is_known = values[1] and true or false, bytes = tonumber(values[1] or 0), is_paused = values[2] and true or false,
    pauses = tonumber(values[3] or 0), -- of lanes and names
    is_relaning = values[4] and true or false,
    has_hidden = values[5] and true or false, -- or had such a job before
  }
  for i, field in ipairs(configuration.FIELDS) do config[field] = tonumber(values[i + 5] or DEFAULT[field]) end
  if not values[#values] and string.sub(queue, 1, #FIXED_LEASE_PREFIX) == FIXED_LEASE_PREFIX then
    config.lease_renewal = 0
  end
  configs[queue] = config
  return config
end

return configuration
