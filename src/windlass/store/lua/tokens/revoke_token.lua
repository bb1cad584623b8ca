-- Remove a token.
-- arguments: ARGV[1] clock offset, [2] name
-- returns:   1
-- refusals:  unknown_token
-- flags: allow-oom
-- uses: keys, tokens
if redis.call('HDEL', tokens_key(), ARGV[2]) == 0 then return 'unknown_token' end
renew_tokens_version()
return 1
