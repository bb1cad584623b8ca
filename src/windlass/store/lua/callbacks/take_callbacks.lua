-- Lease due callbacks to a process that delivers them. If none is due, register the process for a wakeup.
-- arguments: most, lease_ms, wakeup_list ('': do not register), registered_ms, stays_registered ('1': others wait on
--            the same wakeup list), most_per_destination; then per destination with a smaller maximum: destination,
--            maximum
-- returns:   {now, next instant at which a wanted callback is due (0: none), {{id, field, ...}, ...}}; fields as in
--            pending_callbacks.lua
-- refusals:  none
-- flags: allow-oom
local clock = require 'clock'
local due = require 'due'
local keys = require 'keys'
local pending_callbacks = require 'pending_callbacks'
local wakeups = require 'workers.wakeups'

local ANSWER_BYTES_MAX = 8388608

-- Return the maximum by destination, and how many destinations are full.
local function read_maxima(arguments, first)
  local maxima, full = {}, 0
  for i = first, #arguments, 2 do
    local destination, maximum = unpack(arguments, i, i + 1)
    maxima[destination] = tonumber(maximum)
    if maxima[destination] == 0 then full = full + 1 end
  end
  return maxima, full
end

-- Lease a callback. Returns it as {id, field, ...}, and its bytes.
local function lease(callback, destination, until_ms)
  redis.call('HSET', keys.callback(callback), 'token', redis.call('INCR', keys.callback_number()))
  redis.call('HINCRBY', keys.callback(callback), 'tries', 1)
  redis.call('ZADD', keys.pending_callbacks(), until_ms, callback)
  redis.call('ZADD', keys.destination(destination), until_ms, callback)
  return pending_callbacks.read(callback)
end

-- Lease due callbacks of these destinations, up to `most` in all.
local function lease_due(destinations, maxima, most_per_destination, most, until_ms)
  local leased, bytes = {}, 0
  for _, destination in ipairs(destinations) do
    local room = math.min(maxima[destination] or most_per_destination, most - #leased)
    if room > 0 then
      for _, callback in ipairs(due.members(keys.destination(destination), room)) do
        if bytes < ANSWER_BYTES_MAX then
          local fields, size = lease(callback, destination, until_ms)
          leased[#leased + 1] = fields
          bytes = bytes + size
        end
      end
      pending_callbacks.update_destination(destination)
    end
  end
  return leased
end

-- Return the instant at which the next callback of a destination that is not full is due; 0: there is none.
local function next_due_at(maxima, full)
  local following = redis.call('ZRANGE', keys.destinations(), 0, full, 'WITHSCORES')
  for i = 1, #following, 2 do
    if maxima[following[i]] ~= 0 then return tonumber(following[i + 1]) end
  end
  return 0
end

return function(arguments, most, lease_ms, wakeup_list, registered_ms, stays_registered, most_per_destination)
  most = tonumber(most)
  local maxima, full = read_maxima(arguments, 8)
  local function register() wakeups.register(pending_callbacks.PLACE, wakeup_list, '', tonumber(registered_ms)) end

  -- Register before taking, so that the remaining callbacks can be offered to the others.
  if stays_registered == '1' then register() end
  local destinations = due.members(keys.destinations(), most + full)
  local until_ms = clock.now_ms + tonumber(lease_ms)
  local leased = lease_due(destinations, maxima, tonumber(most_per_destination), most, until_ms)
  if #leased == 0 and wakeup_list ~= '' then register() end
  -- Offer the rest to the next waiting process: it may have room for destinations where the caller has none.
  if #leased > 0 and pending_callbacks.is_due() then wakeups.wake(pending_callbacks.PLACE, nil) end
  return {clock.now_ms, next_due_at(maxima, full), leased}
end
