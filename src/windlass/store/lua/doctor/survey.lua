-- Return a page of all keys of the partition, for the doctor.
-- arguments: ARGV[1] clock offset, [2] cursor ('0' to start), [3] about how many keys to scan
-- returns:   {next cursor ('0' at the end), {key without the root, ...}}
-- refusals:  none
-- flags: no-writes
-- uses: keys
local pattern = string.gsub(P, '[%[%]%*%?%^%-\\]', '\\%0') .. '*'
local page = redis.call('SCAN', ARGV[2], 'MATCH', pattern, 'COUNT', ARGV[3])
local names = {}
for i, key in ipairs(page[2]) do names[i] = string.sub(key, #P + 1) end
return {page[1], names}
