-- uses: keys, record, config, lanes, limits, blocked_lanes, filter, wakeups, select
-- Wakeups of waiting takers: for jobs that became takeable, and for blocked lanes that got room.
local FILTERS_ASKED = 50
local OFFERED = 8

-- Room appeared: look for jobs for each distinct filter of the waiting takers.
local function offer_room(queue)
  local asked, filters = 0, {}
  local list = load_waiters(queue)
  for i = 1, #list, 2 do
    local filter = list[i] and string.match(list[i], '^[^\1]*\1(.*)$')
    if filter and not filters[filter] and asked < FILTERS_ASKED then
      filters[filter] = true
      asked = asked + 1
      local ids, resume = pick(queue, parse_filter(filter), OFFERED, 0)
      for _, id in ipairs(ids) do
        local r = load(id)
        if r then ring(queue, r) end
      end
      if resume and #ids == 0 then ring(queue, nil) end
    end
  end
end

-- A job that may not run now wakes no taker: its lane is moved to the blocked lanes, and takers are woken when room
-- appears.
local function may_run_now(r)
  local lane = lane_of(r)
  local holdup = held_back_by(r.queue, lane)
  if holdup then park(r.queue, lane, holdup) end
  return not holdup
end

-- Call it after the last flush, so that the jobs are in place when takers learn of them.
local function ring_all()
  look_at_rooms_again()
  for queue, list in pairs(ring_wanted) do
    if not config_of(queue).is_paused then
      for _, r in ipairs(list) do
        if may_run_now(r) and not ring(queue, r) and is_deserted(queue) then break end
      end
    end
  end
  ring_wanted = {}
  for queue in pairs(opened) do offer_room(queue) end
  opened = {}
end
