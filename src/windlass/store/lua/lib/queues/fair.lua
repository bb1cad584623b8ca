-- uses: keys, batch, record, config
-- Fair share: lanes (tenants) of a queue take turns by weight. Each tenant has a virtual time that grows with every job
-- taken from it, more slowly the greater its weight. The smallest virtual time is next. A tenant that was idle starts
-- at the queue's own virtual time.
local TURN = 100 -- virtual time of one job of weight 1
local LATEST = 281474976710655
local clocks -- queue -> {now, times and weights by tenant, changed tenants}
at_start[#at_start + 1] = function() clocks = clean(clocks) end

local function is_fair(queue) return config_of(queue).fair_share == 1 end

local function clock_of(queue)
  local clock = clocks[queue]
  if not clock then
    local now = tonumber(redis.call('HGET', queue_key('q', queue), 'virtual_now') or 0)
    clock = {now = now, times = {}, weights = {}, changed = {}}
    clocks[queue] = clock
  end
  return clock
end

local function virtual_time(queue, tenant)
  local clock = clock_of(queue)
  if not clock.times[tenant] then
    clock.times[tenant] = tonumber(redis.call('ZSCORE', queue_key('turns', queue), tenant) or 0)
  end
  return math.max(clock.now, clock.times[tenant])
end

local function turn_of(queue, tenant)
  local weights = clock_of(queue).weights
  weights[tenant] = weights[tenant] or tonumber(redis.call('HGET', queue_key('weights', queue), tenant) or 1)
  return TURN / weights[tenant]
end

-- Encode a virtual time as the first six bytes of a lane entry.
local function order_bytes(at) return struct.pack('>I6', math.min(math.floor(at), LATEST)) end

-- Advance the virtual time of a tenant whose job was leased.
local function charge(queue, tenant)
  local clock = clock_of(queue)
  local at = virtual_time(queue, tenant)
  clock.now = at
  clock.times[tenant] = at + turn_of(queue, tenant)
  clock.changed[tenant] = true
end

after_flush[#after_flush + 1] = function()
  for queue, clock in pairs(clocks) do
    if next(clock.changed) then
      local key = queue_key('turns', queue)
      for tenant in pairs(clock.changed) do redis.call('ZADD', key, clock.times[tenant], tenant) end
      clock.changed = {}
      redis.call('HSET', queue_key('q', queue), 'virtual_now', string.format('%.17g', clock.now))
      -- A time that is not ahead of the queue's has no effect.
      redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.17g', clock.now))
    end
  end
end
