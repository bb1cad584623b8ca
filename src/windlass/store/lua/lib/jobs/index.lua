-- uses: keys, clock, batch, record, dependencies, config, lanes, limits, caps, blocked_lanes, wakeups, push_workers, events
-- Index entries of a job, for the general path: `enter` adds the entries of its state and `leave` removes them. The
-- fast path (lib/fast_path) writes such entries itself, and the doctor restores lost ones (expected_index.lua). `enter`
-- may mark the record (its kind of lane), so call it before the record is saved.
local function overdue_at(r)
  local timeout_ms = policy_of(r).timeout_ms
  local at = (r.deadline > 0 and not has(r, 'retakeable')) and r.deadline or math.huge
  if timeout_ms > 0 and r.state == STATE.running then at = math.min(at, r.started_at + timeout_ms) end
  return at
end

-- A number is sent with 17 digits, so exactly. Only infinity needs a text.
local function score_of(at) return at == math.huge and '+inf' or at end

-- A timer is a lower bound. It is lowered here, and corrected by the loop that finds nothing due.
local timers
at_start[#at_start + 1] = function() timers = {due = {}, lease = {}} end
local function note_timer(kind, queue, at)
  local known = timers[kind][queue]
  if at < math.huge and (not known or at < known) then timers[kind][queue] = at end
end

after_flush[#after_flush + 1] = function()
  for queue, at in pairs(timers.due) do
    -- Takers wait until the next due time that they know. An earlier one must wake a taker.
    if redis.call('ZADD', P .. 'timers:due', 'LT', 'CH', at, queue) == 1 then
      ring(queue, nil)
      tell_loops(at)
    end
  end
  for queue, at in pairs(timers.lease) do
    -- The timer outlives its job, so this is rare.
    if redis.call('ZADD', P .. 'timers:lease', 'LT', 'CH', at, queue) == 1 then tell_loops(at) end
  end
  timers = {due = {}, lease = {}}
end

local function enter_lane(r)
  local config = config_of(r.queue)
  if config.name_lanes == 1 then
    mark(r, 'name_lane')
  elseif has(r, 'name_lane') then
    unmark(r, 'name_lane')
  end
  if has(r, 'hidden') and not config.has_hidden then
    redis.call('HSET', queue_key('q', r.queue), 'hidden', 1)
    config.has_hidden = true
  end
  local lane, member, score = lane_of(r), place_in_lane(r), score_in_lane(r, config)
  if lane ~= '' then
    touch_lane(r.queue, lane)
    z_add(queue_key('laned', r.queue), score, member)
  end
  z_add(lane_key(r.queue, lane), score, member)
  became_takeable(r)
end

local function leave_lane(r)
  local lane, member = lane_of(r), place_in_lane(r)
  if lane ~= '' then
    touch_lane(r.queue, lane)
    z_drop(queue_key('laned', r.queue), member)
  end
  z_drop(lane_key(r.queue, lane), member)
end

-- Set when the recoverer checks the job. Call it again when that instant changes.
local function watch(r)
  local at = overdue_at(r)
  z_add(queue_key('running', r.queue), score_of(at), r.id)
  note_timer('lease', r.queue, at)
end

-- An overdue job that others may take holds no limit: its own limits must not prevent the take.
local function enter_running(r)
  watch(r)
  if r.links ~= '' and not has(r, 'retakeable') then hold_limits(r) end
  if r.worker ~= NOBODY then z_add(P .. 'wj:' .. r.worker, r.started_at, r.id) end
end

local function leave_running(r)
  z_drop(queue_key('running', r.queue), r.id)
  if r.worker ~= NOBODY then z_drop(P .. 'wj:' .. r.worker, r.id) end
  if r.links ~= '' then free_limits(r) end
  if has(r, 'retakeable') then
    leave_lane(r)
    unmark(r, 'retakeable')
  end
  if r.worker ~= NOBODY then note_room(r.worker) end
end

-- A job must start before its expiry. A job that waits for its next attempt has started.
local function may_expire(r)
  return r.state <= STATE.waiting and r.attempt == 0 and policy_of(r).expires_at > 0
end

local function enter(r)
  local state = r.state
  if state == STATE.queued then
    enter_lane(r)
  elseif state == STATE.scheduled then
    z_add(queue_key('scheduled', r.queue), r.ready_at, r.id)
    note_timer('due', r.queue, r.ready_at)
  elseif is_leased(r) then
    enter_running(r)
  elseif state == STATE.waiting then
    z_add(queue_key('waiting', r.queue), r.created_at, r.id)
  else
    local kind = has(r, 'in_history') and 'history:' or STATE_INDEX[state]
    z_add(P .. kind .. r.queue, r.ended_at, r.id)
  end
  if may_expire(r) then z_add(P .. 'expiry', policy_of(r).expires_at, r.id) end
  if r.links ~= '' then
    follow(r)
    if not is_ended(r) then come_under(r) end
  end
  if r.told ~= state then announce_state(r) end
end

local function leave(r)
  local state = r.state
  if r.links ~= '' and not is_ended(r) then leave_under(r) end
  if state == STATE.queued then
    leave_lane(r)
  elseif is_leased(r) then
    leave_running(r)
  else
    local kind = has(r, 'in_history') and 'history:' or STATE_INDEX[state]
    z_drop(P .. kind .. r.queue, r.id)
    if is_ended(r) then z_drop(P .. 'retention', r.id) end
  end
  if policy_of(r).expires_at > 0 and state <= STATE.waiting then z_drop(P .. 'expiry', r.id) end
end

-- Return queued if its time has come, else scheduled.
local function state_by_time(r)
  return r.ready_at <= now_ms and STATE.queued or STATE.scheduled
end
