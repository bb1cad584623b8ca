-- Return a page of the jobs that a job waits for. Export reads the members behind the first page with it.
-- arguments: id, cursor
-- returns:   {next cursor ('': none), {id + queue, ...}}
-- refusals:  none
-- flags: no-writes
local export_entries = require 'export.export_entries'

return function(_, id, cursor)
  local found, following = export_entries.awaited_page(id, cursor)
  return {following, found}
end
