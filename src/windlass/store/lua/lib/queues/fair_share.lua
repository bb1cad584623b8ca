-- Fair share: lanes (tenants) of a queue take turns by weight. Each tenant has a virtual time that grows with every job
-- taken from it, more slowly the greater its weight. The smallest virtual time is next. A tenant that was idle starts
-- at the queue's own virtual time.
local batch = require 'batch'
local keys = require 'keys'
local configuration = require 'queues.configuration'
local script = require 'script'

local fair_share = {}

local TURN = 100 -- virtual time of one job of weight 1
local LATEST = 281474976710655
local virtual_clocks -- queue -> {now, times and weights by tenant, changed tenants}
script.on_start(function() virtual_clocks = script.clean(virtual_clocks) end)

function fair_share.is_on(queue) return configuration.of(queue).fair_share == 1 end

local function clock_of(queue)
  local clock = virtual_clocks[queue]
  if not clock then
    local now = tonumber(redis.call('HGET', keys.queue(queue), 'virtual_now') or 0)
    clock = {now = now, times = {}, weights = {}, changed = {}}
    virtual_clocks[queue] = clock
  end
  return clock
end

function fair_share.virtual_time(queue, tenant)
  local clock = clock_of(queue)
  if not clock.times[tenant] then
    clock.times[tenant] = tonumber(redis.call('ZSCORE', keys.turns(queue), tenant) or 0)
  end
  return math.max(clock.now, clock.times[tenant])
end

function fair_share.turn_length(queue, tenant)
  local weights = clock_of(queue).weights
  weights[tenant] = weights[tenant] or tonumber(redis.call('HGET', keys.weights(queue), tenant) or 1)
  return TURN / weights[tenant]
end

-- Encode a virtual time as the first six bytes of a lane entry.
function fair_share.order_bytes(at) return struct.pack('>I6', math.min(math.floor(at), LATEST)) end

-- Advance the virtual time of a tenant whose job was leased.
function fair_share.charge(queue, tenant)
  local clock = clock_of(queue)
  local at = fair_share.virtual_time(queue, tenant)
  clock.now = at
  clock.times[tenant] = at + fair_share.turn_length(queue, tenant)
  clock.changed[tenant] = true
end

batch.after_flush(function()
  for queue, clock in pairs(virtual_clocks) do
    if next(clock.changed) then
      local key = keys.turns(queue)
      for tenant in pairs(clock.changed) do redis.call('ZADD', key, clock.times[tenant], tenant) end
      clock.changed = {}
      redis.call('HSET', keys.queue(queue), 'virtual_now', string.format('%.17g', clock.now))
      -- A time that is not ahead of the queue's has no effect.
      redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.17g', clock.now))
    end
  end
end)

return fair_share
