-- Takes a limit away. What it holds back is let go by reopen, in steps.
-- arguments: ARGV[1] clock offset, [2] name
-- returns:   {number, version of the limits, what it was} or a refusal
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
