-- Append entries to the audit log. Beyond the limit the oldest are removed. The engine's own time numbers the entries,
-- so that pages stay in order whatever the clock offset is. The entry contains the instant that people read.
-- arguments: most (entries kept); then entries (opaque)
-- returns:   per entry its id in the stream
-- refusals:  none
-- flags: allow-oom
local clock = require 'clock'
local keys = require 'keys'
local script = require 'script'

return function(arguments, most)
  local at = struct.pack('>I6', clock.now_ms)
  return script.map(arguments, 3, 1, function(entry)
    return redis.call('XADD', keys.audit(), 'MAXLEN', '=', most, '*', 'e', at .. entry)
  end)
end
