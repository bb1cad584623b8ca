-- Lease due callbacks to a process that delivers them. If none is due, register the process for a wakeup.
-- arguments: ARGV[1] clock offset, [2] most, [3] lease_ms, [4] wakeup list ('': do not register), [5] registration in
--            ms, [6] '1' when others wait on the same wakeup list, so that it stays registered, [7] most per
--            destination; then destinations with a smaller maximum, each with its maximum
-- returns:   {now, next instant at which a wanted callback is due (0: none), {{id, field, ...}, ...}}; fields as in
--            pending_callbacks.lua
-- refusals:  none
-- flags: allow-oom
local clock = require 'clock'
local keys = require 'keys'
local pending_callbacks = require 'pending_callbacks'
local wakeups = require 'workers.wakeups'

local ANSWER_BYTES_OWED = 8388608

return function(arguments)
  local most, until_ms, usual_room = tonumber(arguments[2]), clock.now_ms + tonumber(arguments[3]), tonumber(arguments[7])
  local answers, bytes, wanted_of, full = {}, 0, {}, 0
  for i = 8, #arguments, 2 do
    wanted_of[arguments[i]] = tonumber(arguments[i + 1])
    if arguments[i + 1] == '0' then full = full + 1 end
  end

  local function register_bell() wakeups.register(pending_callbacks.PLACE, arguments[4], '', tonumber(arguments[5])) end

  local function lease_debt(callback, destination)
    redis.call('HSET', keys.callback(callback), 'token', redis.call('INCR', keys.callback_number()))
    redis.call('HINCRBY', keys.callback(callback), 'tries', 1)
    redis.call('ZADD', keys.pending_callbacks(), until_ms, callback)
    redis.call('ZADD', keys.destination(destination), until_ms, callback)
    local values, size = pending_callbacks.read(callback)
    table.insert(answers, values)
    bytes = bytes + size
  end

  local function lease_from(destination)
    local wanted = math.min(wanted_of[destination] or usual_room, most - #answers)
    if wanted <= 0 then return end
    for _, callback in ipairs(redis.call('ZRANGEBYSCORE', keys.destination(destination), '-inf', clock.now_ms, 'LIMIT', 0, wanted)) do
      if bytes < ANSWER_BYTES_OWED then lease_debt(callback, destination) end
    end
    pending_callbacks.update_destination(destination)
  end

  -- Register before taking, so that the remaining callbacks can be offered to the others.
  if arguments[6] == '1' then register_bell() end
  for _, destination in ipairs(redis.call('ZRANGEBYSCORE', keys.destinations(), '-inf', clock.now_ms, 'LIMIT', 0, most + full)) do
    lease_from(destination)
  end
  if #answers == 0 and arguments[4] ~= '' then register_bell() end
  -- Offer the rest to the next waiting process: it may have room for destinations where the caller has none.
  if #answers > 0 and pending_callbacks.is_due() then wakeups.wake(pending_callbacks.PLACE, nil) end
  local following = redis.call('ZRANGE', keys.destinations(), 0, full, 'WITHSCORES')
  for i = 1, #following, 2 do
    if wanted_of[following[i]] ~= 0 then return {clock.now_ms, tonumber(following[i + 1]), answers} end
  end
  return {clock.now_ms, 0, answers}
end
