-- uses: keys, cursor, record, config, lanes, fair, limits
-- Position of a takeable job: what blocks its lane, and which jobs are ahead of it. Read-only.

-- Return the pauses of its queue, lane and name: {what, since + reason}; what is '' for the queue, else as in
-- limits.lua.
local function pauses_on(r)
  local found, wanted = {}, {}
  local whole = redis.call('HGET', queue_key('q', r.queue), 'paused')
  if whole then found[1] = {'', whole} end
  if r.lane ~= '' then wanted[1] = 'l' .. r.lane end
  -- A scheduled job gets its lane when its time comes.
  local has_name = has(r, 'name_lane') or (r.state == STATE.scheduled and config_of(r.queue).name_lanes == 1)
  if has_name then wanted[#wanted + 1] = 'n' .. r.name end
  for _, holdup in ipairs(wanted) do
    local content = redis.call('HGET', queue_key('pauses', r.queue), holdup)
    if content then found[#found + 1] = {holdup, content} end
  end
  return found
end

-- Return every full limit of the lane, with its definition, number of holders, instant of the next token (0: not a
-- rate), first holders, and own cap (0: none).
local function full_limits(queue, lane, most)
  local found = {}
  each_limit(limits_of_lane(lane), function(holdup)
    if room_of(queue, holdup) > 0 then return end
    local limit, holders = definition_of(holdup), P .. 'holders:' .. holdup
    found[#found + 1] = {
      holdup, redis.call('HGET', P .. 'limits', limit_number(holdup)), redis.call('ZCARD', holders),
      limit.is_rate and next_token_at(holdup, limit) or 0, redis.call('ZRANGE', holders, 0, most - 1),
      cap_of(holdup) or 0,
    }
  end)
  return found
end

-- Count in the queue's order; in a fair queue, where lanes take turns, within its own lane.
local function jobs_ahead(r)
  local lane, member = lane_of(r), place_in_lane(r)
  if is_fair(r.queue) then return redis.call('ZRANK', lane_key(r.queue, lane), member) or 0 end
  local own, other = queue_key('ready', r.queue), queue_key('laned', r.queue)
  if lane ~= '' then own, other = other, own end
  local score = redis.call('ZSCORE', own, member)
  if not score then return 0 end
  return redis.call('ZRANK', own, member) + rank_after(other, tonumber(score), member)
end

local function count_lanes(queue)
  return redis.call('ZCARD', queue_key('names', queue)) + redis.call('EXISTS', queue_key('ready', queue))
end
