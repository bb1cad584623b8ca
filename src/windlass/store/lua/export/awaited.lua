-- Return a page of the jobs that a job waits for. Export reads the members behind the first page with it.
-- arguments: ARGV[1] clock offset, [2] id, [3] cursor
-- returns:   {next cursor ('': none), {id + queue, ...}}
-- refusals:  none
-- flags: no-writes
-- uses: export_entries
local found, cursor = awaited_page(ARGV[2], ARGV[3])
return {cursor, found}
