-- uses: keys, clock, batch, record, dependencies, config, wakeups, index, unique, ending, link_dependencies, schedules, pending_callbacks, job_log, numbers, relink
-- Restore of exported entries. A job with a parent or members stays in `restoring` until all jobs are restored, because
-- only then are its members and awaited jobs known (relink.lua). Until then a placeholder among its members keeps it
-- waiting.
local PLACEMENT = {name_lanes = true, aging_ms = true, fair_share = true}
local highest_sequence
at_start[#at_start + 1] = function() highest_sequence = 0 end

local function raise_sequence()
  if highest_sequence > tonumber(redis.call('GET', P .. 'seq') or 0) then redis.call('SET', P .. 'seq', highest_sequence) end
end

local function know_queue(queue)
  local config = config_of(queue)
  if config.is_known then return end
  redis.call('HINCRBY', queue_key('q', queue), 'bytes', 0)
  redis.call('SADD', P .. 'queues', queue)
  config.is_known = true
end

local function is_to_hold_unique(r)
  return r.unique ~= '' and (not is_ended(r) or (has(r, 'unique_while_kept') and not has(r, 'in_history')))
end

local function refused_job(r, body)
  local known = load(r.id)
  if known then
    return known.fingerprint == r.fingerprint and known.created_at == r.created_at and 'existing' or 'id_conflict'
  end
  if ended_lately({r.id})[1] then return 'already_ended' end
  if not body.is_shared and is_to_hold_unique(r) and oldest_holder(r) then return 'unique_conflict' end
  return nil
end

local function restore_belongings(r, body)
  if #body.attempts > 0 then
    mark(r, 'has_attempts')
    redis.call('RPUSH', P .. 'a:' .. r.id, unpack(body.attempts))
  end
  if #body.logs > 0 then
    mark(r, 'has_logs')
    redis.call('RPUSH', log_key(r.id), unpack(body.logs))
  end
  if body.result ~= '' then
    mark(r, 'has_outcome')
    put(P .. 'o:' .. r.id, body.result)
  end
  if body.removed_at > 0 then z_add(P .. 'retention', body.removed_at, r.id) end
  if is_to_hold_unique(r) then hold_unique(r) end
  each_tag(r, function(key) z_add(key, r.created_at, r.id) end)
end

local function restore_kin(r, after)
  local is_child = r.links ~= '' and links_of(r).parent ~= NOBODY
  if not is_child and not has(r, 'has_members') then return end
  redis.call('ZADD', P .. 'restoring', LINKING, r.id)
  if is_ended(r) or not has(r, 'has_members') then return end
  if r.state == STATE.waiting then z_add(members_key(r.id), DELETED, NOBODY) end
  for at = 1, #after, 16 do z_add(members_key(r.id), DELETED, string.sub(after, at, at + 15)) end
end

local function restore_counts(r)
  know_queue(r.queue)
  if not is_ended(r) then
    count(queue_key('q', r.queue), 'bytes', r.bytes)
  elseif has(r, 'in_history') then
    count(queue_key('q', r.queue), 'history_bytes_now', r.bytes)
    trim_wanted[r.queue] = (trim_wanted[r.queue] or 0) + 1
  end
  highest_sequence = math.max(highest_sequence, r.sequence)
  raise_number(number_in(r.id) or 0)
end

local RESTORE = {}

-- body: record, attempts, logs, result, removed_at (0: never), is_shared (other jobs hold its unique key too), after
-- (ids of jobs it waits for)
function RESTORE.j(id, body)
  local r = parse(id, body.record)
  local refused = refused_job(r, body)
  if refused then return refused end
  records[id] = r
  r.told = nil -- announce it to followers
  restore_belongings(r, body)
  restore_kin(r, body.after)
  enter(r)
  write(r)
  restore_counts(r)
  return 'added'
end

-- body: list ('owed' or 'given_up'), at, fields
function RESTORE.b(debt, body)
  if redis.call('EXISTS', debt_key(debt)) == 1 then return 'existing' end
  for field, value in pairs(body.fields) do redis.call('HSET', debt_key(debt), field, value) end
  if body.list == 'owed' then
    list_owed(debt, body.fields.to, body.at)
  else
    list_given_up(debt, body.at)
  end
  local number = struct.unpack('>I6', debt, 17)
  if number > tonumber(redis.call('GET', P .. 'debts') or 0) then redis.call('SET', P .. 'debts', number) end
  has_new_debts = true
  return 'added'
end

-- body: fields as stored, next_at, jobs (newest first)
function RESTORE.s(name, body)
  local known = redis.call('HGET', schedule_key(name), 'definition')
  if known then return known == body.fields.definition and 'existing' or 'id_conflict' end
  for field, value in pairs(body.fields) do redis.call('HSET', schedule_key(name), field, value) end
  if #body.jobs > 0 then redis.call('RPUSH', schedule_jobs_key(name), unpack(body.jobs)) end
  redis.call('ZADD', P .. 'schedule_names', 0, name)
  plan_schedule(name, body.next_at)
  return 'added'
end

local function is_other(key, wanted)
  for field, value in pairs(wanted) do
    local known = redis.call('HGET', key, field)
    if known and known ~= value then return true end
  end
  return false
end

local function add_missing(key, wanted)
  local added = 0
  for field, value in pairs(wanted) do
    if redis.call('HSETNX', key, field, value) == 1 then
      added = added + 1
      if PLACEMENT[field] then redis.call('HSET', key, 'relane', 'ready 0') end
    end
  end
  return added
end

-- body: fields, paused (since + reason; '': not paused), pauses, weights. A field or weight with another stored value
-- is a conflict.
function RESTORE.q(queue, body)
  local key, weights, pauses = queue_key('q', queue), queue_key('weights', queue), queue_key('pauses', queue)
  if is_other(key, body.fields) or is_other(weights, body.weights) then return 'id_conflict' end
  local is_new = redis.call('EXISTS', key) == 0
  know_queue(queue)
  local added = add_missing(key, body.fields) + add_missing(weights, body.weights) + add_missing(pauses, body.pauses)
  if body.paused ~= '' then added = added + redis.call('HSETNX', key, 'paused', body.paused) end
  if next(body.pauses) then redis.call('HSET', key, 'pauses', redis.call('HLEN', pauses)) end
  return (is_new or added > 0) and 'added' or 'existing'
end
