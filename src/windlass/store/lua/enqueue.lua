-- Adds jobs. Repeating an id is harmless; a unique key may name an existing job instead.
-- arguments: ARGV[1] clock offset; then per job: id + record as packed by the caller, and its terms:
--            '' or (B unique check: 0 none, 1 keep, 2 replace; I4 revision guard, 0 none; ids of jobs to wait for)
-- returns:   per job {status, id, revision}; status 'queued', 'scheduled', 'waiting', 'existing', 'replaced', 'ended' or
--            a refusal
-- refusals:  id_conflict, queue_full, revision_conflict, unknown_parent, parent_state, unknown_member
-- uses: keys, clock, batch, record, new_record, config, ring, place, tally, unique, ending, joining, family
local KEEP = 1 -- as unique check; anything else that is not 0 replaces
local FIRST_REVISION = 1 -- as packed by the caller

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

-- The new content goes into the job that holds the key; its id, place in time and history stay.
local function replace(existing, r, guard)
  if guard > 0 and guard ~= existing.revision then return {'revision_conflict', existing.id, existing.revision} end
  if grows_too_much(existing, r) then return {'queue_full', existing.id, 0} end
  local is_pending = existing.state <= STATE.waiting
  local is_retakeable = has(existing, 'retakeable')
  if is_pending then leave(existing) elseif is_retakeable then leave_lane(existing) end
  each_tag(existing, function(key) z_drop(key, existing.id) end)
  each_tag(r, function(key) z_add(key, existing.created_at, existing.id) end)
  existing.priority, existing.policy, existing.policy_read = r.priority, r.policy, nil
  existing.tags, existing.extras = r.tags, r.extras
  existing.flags = bit.bor(bit.band(existing.flags, bit.bnot(3)), bit.band(r.flags, 3))
  if r.ready_at > 0 then existing.ready_at = r.ready_at end
  existing.revision = existing.revision + 1
  if is_pending and existing.state ~= STATE.waiting then existing.state = state_by_time(existing) end
  if is_pending then enter(existing) elseif is_retakeable then enter_lane(existing) end
  if is_leased(existing) then watch(existing) end -- its execution timeout may be another
  local config, bytes_before = config_of(existing.queue), existing.bytes
  rewrite(existing, string.sub(r.raw, r.head_bytes + 1))
  -- Jobs that follow in the same call are measured against what the queue holds now.
  if not is_ended(existing) then config.bytes = config.bytes + existing.bytes - bytes_before end
  return {'replaced', existing.id, existing.revision}
end

local function enqueue_one(id, key, entry, terms, sequence, is_stored, has_ended)
  local known = (is_stored or value_pending[key]) and load(id)
  local r = decode_new(entry)
  if known then return {known.fingerprint == r.fingerprint and 'existing' or 'id_conflict', id, known.revision} end
  if has_ended then return {'ended', id, 0} end
  local check, guard, after = 0, 0, ''
  if terms ~= '' then
    check, guard = struct.unpack('>BI4', terms)
    after = string.sub(terms, 6)
  end
  local holder = check > 0 and oldest_holder(r)
  if not holder then return add(r, sequence, after) end
  if check == KEEP then return {'existing', holder.id, holder.revision} end
  return replace(holder, parse(id, string.sub(entry, 17)), guard)
end

local ids, keys = {}, {}
for i = 1, (#ARGV - 1) / 2 do
  ids[i] = string.sub(ARGV[2 * i], 1, 16)
  keys[i] = job_key(ids[i])
end
local some_stored = redis.call('EXISTS', unpack(keys)) > 0
local ended = ended_lately(ids)
-- Always a write, also when all jobs are known: a confirmation (WAITAOF) of a repeated call then covers the first.
local first = redis.call('INCRBY', P .. 'seq', #ids) - #ids + 1
local answers = {}
for i = 1, #ids do
  answers[i] = enqueue_one(ids[i], keys[i], ARGV[2 * i], ARGV[2 * i + 1], first + i - 1, some_stored, ended[i])
end
flush()
ring_all()
correct_waits(answers)
return answers
