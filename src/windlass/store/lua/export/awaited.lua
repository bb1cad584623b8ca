-- Return a page of the jobs that a job waits for. Export reads the members behind the first page with it.
-- arguments: ARGV[1] clock offset, [2] id, [3] cursor
-- returns:   {next cursor ('': none), {id + queue, ...}}
-- refusals:  none
-- flags: no-writes
local export_entries = require 'export.export_entries'

return function(arguments)
  local found, cursor = export_entries.awaited_page(arguments[2], arguments[3])
  return {cursor, found}
end
