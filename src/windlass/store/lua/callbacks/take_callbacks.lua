-- Lease due callbacks to a process that delivers them. If none is due, register the process for a wakeup.
-- arguments: ARGV[1] clock offset, [2] most, [3] lease_ms, [4] wakeup list ('': do not register), [5] registration in
--            ms, [6] '1' when others wait on the same wakeup list, so that it stays registered, [7] most per
--            destination; then destinations with a smaller maximum, each with its maximum
-- returns:   {now, next instant at which a wanted callback is due (0: none), {{id, field, ...}, ...}}; fields as in
--            pending_callbacks.lua
-- refusals:  none
-- flags: allow-oom
-- uses: keys, clock, wakeups, pending_callbacks
local ANSWER_BYTES_OWED = 8388608
local most, until_ms, usual_room = tonumber(ARGV[2]), now_ms + tonumber(ARGV[3]), tonumber(ARGV[7])
local answers, bytes, wanted_of, full = {}, 0, {}, 0
for i = 8, #ARGV, 2 do
  wanted_of[ARGV[i]] = tonumber(ARGV[i + 1])
  if ARGV[i + 1] == '0' then full = full + 1 end
end

local function register_bell() wait_for_ring(OWED, ARGV[4], '', tonumber(ARGV[5])) end

local function lease_debt(debt, destination)
  redis.call('HSET', debt_key(debt), 'token', redis.call('INCR', P .. 'debts'))
  redis.call('HINCRBY', debt_key(debt), 'tries', 1)
  redis.call('ZADD', P .. 'owed', until_ms, debt)
  redis.call('ZADD', destination_key(destination), until_ms, debt)
  local values, size = read_debt(debt)
  table.insert(answers, values)
  bytes = bytes + size
end

local function lease_from(destination)
  local wanted = math.min(wanted_of[destination] or usual_room, most - #answers)
  if wanted <= 0 then return end
  for _, debt in ipairs(redis.call('ZRANGEBYSCORE', destination_key(destination), '-inf', now_ms, 'LIMIT', 0, wanted)) do
    if bytes < ANSWER_BYTES_OWED then lease_debt(debt, destination) end
  end
  mark_destination(destination)
end

-- Register before taking, so that the remaining callbacks can be offered to the others.
if ARGV[6] == '1' then register_bell() end
for _, destination in ipairs(redis.call('ZRANGEBYSCORE', P .. 'owed_to', '-inf', now_ms, 'LIMIT', 0, most + full)) do
  lease_from(destination)
end
if #answers == 0 and ARGV[4] ~= '' then register_bell() end
-- Offer the rest to the next waiting process: it may have room for destinations where the caller has none.
if #answers > 0 and is_debt_due() then ring(OWED, nil) end
local following = redis.call('ZRANGE', P .. 'owed_to', 0, full, 'WITHSCORES')
for i = 1, #following, 2 do
  if wanted_of[following[i]] ~= 0 then return {now_ms, tonumber(following[i + 1]), answers} end
end
return {now_ms, 0, answers}
