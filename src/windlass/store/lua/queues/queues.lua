-- Return a page of queue names.
-- arguments: ARGV[1] clock offset, [2] cursor ('0' to start), [3] about how many
-- returns:   {next cursor ('0' at the end), {name, ...}}
-- refusals:  none
-- flags: no-writes
-- uses: keys
return redis.call('SSCAN', P .. 'queues', ARGV[2], 'COUNT', ARGV[3])
