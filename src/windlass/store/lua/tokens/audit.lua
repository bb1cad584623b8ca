-- Append entries to the audit log. Beyond the limit the oldest are removed. The engine's own time numbers the entries,
-- so that pages stay in order whatever the clock offset is. The entry contains the instant that people read.
-- arguments: ARGV[1] clock offset, [2] most entries kept; then entries (opaque)
-- returns:   per entry its id in the stream
-- refusals:  none
-- flags: allow-oom
local clock = require 'clock'
local keys = require 'keys'

return function(arguments)
  local at, answers = struct.pack('>I6', clock.now_ms), {}
  for i = 3, #arguments do answers[i - 2] = redis.call('XADD', keys.audit(), 'MAXLEN', '=', arguments[2], '*', 'e', at .. arguments[i]) end
  return answers
end
