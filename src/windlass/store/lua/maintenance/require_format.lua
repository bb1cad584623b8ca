-- Raise the format of this partition, so that programs that do not know it refuse the namespace.
-- arguments: number, version (the first that knows it)
-- returns:   the format in force
-- refusals:  none
-- flags: allow-oom
local namespace_format = require 'namespace_format'

return function(_, number, version) return namespace_format.require(tonumber(number), version) end
