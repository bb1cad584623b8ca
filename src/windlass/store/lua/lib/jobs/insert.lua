-- uses: keys, clock, batch, record, new_record, repeat_rule, config, limits, caps, wakeups, index, counters, unique, ending, link_dependencies
-- Insert of a job, shared by enqueue and by schedules.
local CHECK = {none = 0, keep = 1, replace = 2, debounce = 3, throttle = 4, refuse = 5} -- action for a unique key
local TERMS_BYTES = {[0] = 1, 1, 5, 13, 7, 1} -- of each action; the ids of the jobs to wait for follow
local CONTENT_BITS = CODEC_BITS + FLAG.has_callback + FLAG.owes_finished + FLAG.owes_failed + FLAG.owes_cancelled
  + FLAG.whole_seconds

local function waiting_length(queue)
  return redis.call('ZCARD', queue_key('ready', queue)) + redis.call('ZCARD', queue_key('laned', queue))
    + redis.call('ZCARD', queue_key('scheduled', queue)) + redis.call('ZCARD', queue_key('waiting', queue))
end

local function is_full(r, config)
  if config.max_length == 0 and config.max_bytes == 0 then return false end
  config.length = config.length or waiting_length(r.queue)
  return (config.max_length > 0 and config.length >= config.max_length)
    or (config.max_bytes > 0 and config.bytes + r.bytes > config.max_bytes)
end

local function note_growth(r, config)
  if config.length then config.length = config.length + 1 end
  config.bytes = config.bytes + r.bytes
  count(queue_key('q', r.queue), 'bytes', r.bytes)
  if not config.is_known then
    redis.call('SADD', P .. 'queues', r.queue)
    config.is_known = true
  end
end

local function add(r, sequence, after)
  local config = config_of(r.queue)
  if is_full(r, config) then return {'queue_full', r.id, 0} end
  local refusal, kin = find_kin(r, after)
  if refusal then return {refusal, r.id, 0} end
  r.sequence, r.created_at = sequence, now_ms
  if r.ready_at == 0 then r.ready_at = now_ms end
  if kin then join_in(r, kin) else r.state = state_by_time(r) end
  enter(r)
  write_new(r)
  hold_unique(r)
  each_tag(r, function(key) z_add(key, now_ms, r.id) end)
  note_growth(r, config)
  tally(r.queue, 'enqueued', 1)
  return {STATUS_OF[r.state], r.id, FIRST_REVISION}
end

local function grows_too_much(existing, r)
  local config, grown = config_of(existing.queue), r.bytes - existing.bytes
  return config.max_bytes > 0 and grown > 0 and not is_ended(existing) and config.bytes + grown > config.max_bytes
end

-- Write the new content to the job that holds the key. Its id, creation and attempts stay, and its run time if there is
-- no new one. Name and lane are content: the payload was made for that name, and the limits were matched with both.
local function replace(existing, r, guard)
  if guard > 0 and guard ~= existing.revision then return {'revision_conflict', existing.id, existing.revision} end
  if grows_too_much(existing, r) then return {'queue_full', existing.id, 0} end
  local is_pending = existing.state <= STATE.waiting
  local is_retakeable = has(existing, 'retakeable')
  if is_pending then leave(existing) elseif is_retakeable then leave_lane(existing) end
  each_tag(existing, function(key) z_drop(key, existing.id) end)
  each_tag(r, function(key) z_add(key, existing.created_at, existing.id) end)
  existing.priority, existing.policy, existing.policy_read = r.priority, r.policy, nil
  existing.name, existing.lane, existing.tags = r.name, r.lane, r.tags
  adopt_extras(existing, r)
  change_limits(existing, links_of(r).limits)
  existing.flags = bit.bor(bit.band(existing.flags, bit.bnot(CONTENT_BITS)), bit.band(r.flags, CONTENT_BITS))
  if r.ready_at > 0 then existing.ready_at = r.ready_at end
  existing.revision = existing.revision + 1
  if is_pending and existing.state ~= STATE.waiting then existing.state = state_by_time(existing) end
  if is_pending then enter(existing) elseif is_retakeable then enter_lane(existing) end
  if is_leased(existing) then watch(existing) end -- its execution timeout may have changed
  if existing.state == STATE.finished then keep_anew(existing) end -- its result may have another TTL
  local config, bytes_before = config_of(existing.queue), existing.bytes
  rewrite(existing, string.sub(r.raw, r.head_bytes + 1))
  -- Later jobs of the same call are checked against the new size of the queue.
  if not is_ended(existing) then config.bytes = config.bytes + existing.bytes - bytes_before end
  return {'replaced', existing.id, existing.revision}
end

-- Debounce: the job runs when there was no call for a while. A call that finds it not taken yet replaces its content
-- and moves its run time, at most `most_ms` from its creation. The id of such a call counts as ended, so that a
-- repeated call does not run it a second time.
local function debounce(r, entry, terms, sequence, after)
  local pause_ms, most_ms = struct.unpack('>I6I6', terms, 2)
  local holder = newest_holder(r)
  r.ready_at = now_ms + pause_ms
  if not holder or holder.state > STATE.waiting or holder.attempt > 0 then return add(r, sequence, after) end
  local content = parse(r.id, string.sub(entry, 17))
  content.ready_at = most_ms > 0 and math.min(r.ready_at, holder.created_at + most_ms) or r.ready_at
  local answer = replace(holder, content, 0)
  if answer[1] == 'replaced' then ended_now[#ended_now + 1] = ended_mark(r.id) end
  return answer
end

-- Throttle: the first call of a period wins, whatever happens to its job.
local function throttle(r, terms, sequence, after)
  local key, period_ms = P .. 'throttle:' .. r.queue .. '\0' .. r.unique, struct.unpack('>I6', terms, 2)
  local known = redis.call('GET', key)
  local until_at, id = 0, nil
  if known then until_at, id = struct.unpack('>I6c16', known) end
  if until_at > now_ms then
    local first = load(id)
    return {'existing', id, first and first.revision or 0}
  end
  local answer = add(r, sequence, after)
  if answer[3] > 0 then
    redis.call('SET', key, struct.pack('>I6', now_ms + period_ms) .. r.id, 'PX', period_ms)
  end
  return answer
end

local function enqueue_one(id, key, entry, terms, sequence, is_stored, has_ended)
  local known = (is_stored or value_pending[key]) and load(id)
  local r = decode_new(entry)
  if known then return {known.fingerprint == r.fingerprint and 'existing' or 'id_conflict', id, known.revision} end
  if has_ended then return {'ended', id, 0} end
  local check = terms ~= '' and string.byte(terms) or CHECK.none
  local after = string.sub(terms, TERMS_BYTES[check] + 1)
  if check == CHECK.debounce then return debounce(r, entry, terms, sequence, after) end
  if check == CHECK.throttle then return throttle(r, terms, sequence, after) end
  local holder = check ~= CHECK.none and oldest_holder(r)
  if not holder then return add(r, sequence, after) end
  if check == CHECK.keep then return {'existing', holder.id, holder.revision} end
  if check == CHECK.refuse then return {'unique_conflict', holder.id, holder.revision} end
  return replace(holder, parse(id, string.sub(entry, 17)), struct.unpack('>I4', terms, 2))
end
