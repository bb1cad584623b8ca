-- Leases callbacks that are due to somebody who delivers them; registers the bell when there is none.
-- arguments: ARGV[1] clock offset, [2] most, [3] lease_ms, [4] bell ('': do not register), [5] registered for ms,
--            [6] '1' when others wait behind the same bell: it stays registered
-- returns:   {now, next instant at which one is due (0: none), {{id, field, ...}, ...}}; fields as in owed.lua
-- refusals:  none
-- flags: allow-oom
-- uses: keys, clock, ring, owed
local ANSWER_BYTES_OWED = 8388608
local most, until_ms = tonumber(ARGV[2]), now_ms + tonumber(ARGV[3])
local answers, bytes = {}, 0
local function register_bell() wait_for_ring(OWED, ARGV[4], '', tonumber(ARGV[5])) end
-- Before taking, so that what is left can be offered to them.
if ARGV[6] == '1' then register_bell() end
for _, debt in ipairs(redis.call('ZRANGEBYSCORE', P .. 'owed', '-inf', now_ms, 'LIMIT', 0, most)) do
  if bytes >= ANSWER_BYTES_OWED then break end
  redis.call('HSET', debt_key(debt), 'token', redis.call('INCR', P .. 'debts'))
  redis.call('HINCRBY', debt_key(debt), 'tries', 1)
  redis.call('ZADD', P .. 'owed', until_ms, debt)
  local values, size = read_debt(debt)
  table.insert(answers, values)
  bytes = bytes + size
end
if #answers == 0 and ARGV[4] ~= '' then register_bell() end
-- What is left is offered to the next who waits.
if #answers > 0 and is_debt_due() then ring(OWED, nil) end
local first = redis.call('ZRANGE', P .. 'owed', 0, 0, 'WITHSCORES')
return {now_ms, tonumber(first[2] or 0), answers}
