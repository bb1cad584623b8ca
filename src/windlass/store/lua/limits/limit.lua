-- Create a limit, or replace the content of the limit with that name.
-- arguments: ARGV[1] clock offset, [2] name, [3] kind, amount and burst (limits.lua) + definition as the callers keep
--            it
-- returns:   {number, version of the limits, previous content ('': none)}
-- refusals:  none
-- flags: allow-oom
-- uses: keys
local number = redis.call('HGET', P .. 'limit_names', ARGV[2])
if not number then
  number = redis.call('INCR', P .. 'limit_number')
  redis.call('HSET', P .. 'limit_names', ARGV[2], number)
end
local before = redis.call('HGET', P .. 'limits', number) or ''
redis.call('HSET', P .. 'limits', number, ARGV[3])
local version = redis.call('INCR', P .. 'limits_version')
redis.call('SET', P .. 'rematch', version)
return {tonumber(number), version, before}
