-- All jobs have been matched against this version of the limits: nothing is left to do, unless they changed again.
-- arguments: ARGV[1] clock offset, [2] version
-- returns:   1 when it is still the version
-- refusals:  none
-- flags: allow-oom
-- uses: keys
if redis.call('GET', P .. 'rematch') ~= ARGV[2] then return 0 end
redis.call('DEL', P .. 'rematch')
return 1
