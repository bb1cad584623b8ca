-- Remove a limit. reopen.lua releases the lanes that it blocks, in steps.
-- arguments: ARGV[1] clock offset, [2] name
-- returns:   {number, version of the limits, previous content} or a refusal
-- refusals:  unknown_limit
-- flags: allow-oom
-- uses: keys
local number = redis.call('HGET', P .. 'limit_names', ARGV[2])
if not number then return 'unknown_limit' end
redis.call('HDEL', P .. 'limit_names', ARGV[2])
local before = redis.call('HGET', P .. 'limits', number)
redis.call('HDEL', P .. 'limits', number)
local version = redis.call('INCR', P .. 'limits_version')
redis.call('SET', P .. 'rematch', version)
return {tonumber(number), version, before}
