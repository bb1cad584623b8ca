-- Format of the namespace: the lowest that a program must know (core/namespace/format.py). Each partition stores it,
-- with the version that reads it first, and it only grows. The field `layout` is also checked by version 0.1.0.
local FORMAT = require('constants').FORMAT
local STEPS_NEED_VERSION = require('constants').STEPS_NEED_VERSION
local keys = require 'keys'

local namespace_format = {}

-- Refuse programs that do not know a format, from their next connection on. Return the format in force.
function namespace_format.require(number, version)
  local found = tonumber(redis.call('HGET', keys.root, 'layout') or 1)
  if found >= number then return found end
  redis.call('HSET', keys.root, 'layout', number, 'needs_version', version)
  return number
end

-- Refuse versions that do not know steps: their loops put such a job into a lane from which it is taken for ever.
function namespace_format.require_steps() return namespace_format.require(FORMAT.with_steps, STEPS_NEED_VERSION) end

return namespace_format
