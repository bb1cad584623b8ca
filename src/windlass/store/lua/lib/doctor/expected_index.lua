-- uses: keys, clock, batch, record, config, lanes, limits, caps, wakeups, index, ending, unique
-- Index entries that a job must have, derived from its record alone. Checks compare with them, and repairs write them.

-- Return the record and false; nil and false if there is none; nil and true if it cannot be read.
local function safe_load(id)
  local is_read, r = pcall(load, id)
  if is_read then return r, false end
  return nil, true
end

local function id_of_entry(entry) return #entry == 16 and entry or id_in_place(entry) end

local function stands_in_lane(r) return r.state == STATE.queued or has(r, 'retakeable') end

local function holds_unique(r)
  if r.unique == '' then return false end
  return not is_ended(r) or (has(r, 'unique_while_kept') and not has(r, 'in_history'))
end

local function place_of_state(r)
  if r.state == STATE.scheduled then return 'scheduled:', r.ready_at end
  if r.state == STATE.waiting then return 'waiting:', r.created_at end
  if is_leased(r) then return 'running:', overdue_at(r) end
  return has(r, 'in_history') and 'history:' or STATE_INDEX[r.state], r.ended_at
end

local function add_lane(places, r)
  local lane, place = lane_of(r), {member = place_in_lane(r), score = score_in_lane(r, config_of(r.queue))}
  -- Jobs that are not relaned yet still have their old score.
  if config_of(r.queue).is_relaning then place.score = nil end
  places[lane_key(r.queue, lane)] = place
  if lane ~= '' then places[queue_key('laned', r.queue)] = place end
end

local function add_lease(places, r)
  if r.worker ~= NOBODY then
    -- A worker that went silent no longer lists jobs that others may take over.
    places[P .. 'wj:' .. r.worker] = {member = r.id, score = r.started_at, may_miss = has(r, 'retakeable')}
  end
  if has(r, 'retakeable') then return end
  each_limit(links_of(r).limits, function(holdup)
    places[P .. 'holders:' .. holdup] = {member = r.id, score = r.started_at}
  end)
end

-- Return by key: the member, its score (nil: any), and whether it may be missing.
local function places_of(r)
  local places = {}
  if r.state ~= STATE.queued then
    local kind, score = place_of_state(r)
    places[P .. kind .. r.queue] = {member = r.id, score = score}
  end
  if stands_in_lane(r) then add_lane(places, r) end
  if is_leased(r) then add_lease(places, r) end
  if not is_ended(r) then
    each_key(r, function(holdup) places[P .. 'under:' .. holdup] = {member = r.id, score = r.state} end)
  end
  if may_expire(r) then places[P .. 'expiry'] = {member = r.id, score = policy_of(r).expires_at} end
  if holds_unique(r) then places[unique_key(r)] = {member = r.id, score = r.sequence} end
  each_tag(r, function(key) places[key] = {member = r.id, score = r.created_at} end)
  return places
end

local function is_in_place(key, place)
  local score = redis.call('ZSCORE', key, place.member)
  if not score then return place.may_miss end
  return place.score == nil or tonumber(score) == place.score
end

local function wake_for(r)
  if r.state == STATE.scheduled then note_timer('due', r.queue, r.ready_at) end
  if is_leased(r) then note_timer('lease', r.queue, overdue_at(r)) end
  if stands_in_lane(r) then became_takeable(r) end
end

local function put_in_place(r)
  if stands_in_lane(r) and lane_of(r) ~= '' then touch_lane(r.queue, lane_of(r), true) end
  for key, place in pairs(places_of(r)) do
    if not is_in_place(key, place) then z_add(key, score_of(place.score or score_in_lane(r, config_of(r.queue))), place.member) end
  end
  if is_leased(r) and not has(r, 'retakeable') then
    each_limit(links_of(r).limits, function(holdup) held_now[holdup] = true end)
  end
  if not is_ended(r) then each_key(r, function(holdup) met[holdup] = true end) end
  wake_for(r)
end
