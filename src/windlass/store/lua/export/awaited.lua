-- The jobs that one waits for, a page of its members at a time: export asks for what is behind its first page.
-- arguments: ARGV[1] clock offset, [2] id, [3] cursor
-- returns:   {next cursor ('': none), {id + queue, ...}}
-- refusals:  none
-- flags: no-writes
-- uses: export_entries
local found, cursor = awaited_page(ARGV[2], ARGV[3])
return {cursor, found}
