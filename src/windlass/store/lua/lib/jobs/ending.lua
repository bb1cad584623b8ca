-- uses: keys, clock, batch, record, dependencies, config, wakeups, index, unique, events, pending_callbacks, job_log, numbers
-- End of a job, retention of ended jobs, and their removal.
local BUCKET_MS = 600000
local ended_now, trim_wanted
at_start[#at_start + 1] = function() ended_now, trim_wanted = {}, {} end

-- Return the current bucket and the previous one. Cached while they stay the same.
local root_of_buckets, bucket, newer_bucket, older_bucket
local function ended_buckets()
  local current = math.floor(now_ms / BUCKET_MS)
  if P ~= root_of_buckets or current ~= bucket then
    root_of_buckets, bucket = P, current
    newer_bucket, older_bucket = P .. 'ended:' .. current, P .. 'ended:' .. (current - 1)
  end
  return newer_bucket, older_bucket
end
-- Looking up `string.sub` costs as much as running it.
local ending_call, ending_sub
at_begin[#at_begin + 1] = function()
  if not ending_call then ending_call, ending_sub = redis.call, string.sub end
end
local function ended_mark(id) return ending_sub(id, 9) end

local function mark_ended(marks)
  local key = ended_buckets()
  call_in_steps('SADD', key, marks)
  redis.call('PEXPIRE', key, 2 * BUCKET_MS)
end

after_flush[#after_flush + 1] = function()
  if #ended_now == 0 then return end
  mark_ended(ended_now)
  ended_now = {}
end

-- Return per id whether it ended recently, which covers at least the last 10 minutes.
local function ended_lately(ids)
  local answer, marks, newer, older = {}, {}, ended_buckets()
  for i = 1, #ids do marks[i] = ended_mark(ids[i]) end
  local in_newer, in_older = redis.call('SMISMEMBER', newer, unpack(marks)), redis.call('SMISMEMBER', older, unpack(marks))
  for i = 1, #ids do answer[i] = in_newer[i] == 1 or in_older[i] == 1 end
  return answer
end
local function has_ended(id)
  local mark, newer, older = ended_mark(id), ended_buckets()
  return ending_call('SISMEMBER', newer, mark) == 1 or ending_call('SISMEMBER', older, mark) == 1
end
local function is_any_in(bucket, marks)
  if ending_call('EXISTS', bucket) == 0 then return false end
  local found = ending_call('SMISMEMBER', bucket, unpack(marks))
  for i = 1, #found do
    if found[i] == 1 then return true end
  end
  return false
end
local function has_any_ended(ids)
  if #ids == 1 then return has_ended(ids[1]) end
  local marks, newer, older = {}, ended_buckets()
  for i = 1, #ids do marks[i] = ended_mark(ids[i]) end
  return is_any_in(newer, marks) or is_any_in(older, marks)
end

-- Return why there is no record of this id.
local function missing(id)
  return (records[id] == false or ended_lately({id})[1]) and 'already_ended' or 'unknown_job'
end

local function each_tag(r, visit)
  if r.tags == '' then return end
  for tag in string.gmatch(r.tags, '[^%z]+') do visit(P .. 't:' .. tag) end
end

local function drop_belongings(r)
  if has(r, 'has_attempts') then remove(P .. 'a:' .. r.id) end
  if has(r, 'has_outcome') then remove(P .. 'o:' .. r.id) end
  if has(r, 'has_logs') then remove(log_key(r.id)) end
  if has(r, 'awaited') then remove(P .. 'e:' .. r.id) end
  if has(r, 'has_number') then forget_number(r.id) end
  if has(r, 'in_history') then count(queue_key('q', r.queue), 'history_bytes_now', -r.bytes) end
end

-- Remove everything of a job that has left the index of its state.
local function drop(r)
  remove(job_key(r.id))
  if r.links ~= '' or not is_plain(r) then leave_kin(r) end
  if not is_plain(r) then drop_belongings(r) end
  let_unique_go(r)
  each_tag(r, function(key) z_drop(key, r.id) end)
  ended_now[#ended_now + 1] = ended_mark(r.id)
  records[r.id] = false
end

local function tell_awaiting(r)
  if not has(r, 'awaited') then return end
  local key = P .. 'e:' .. r.id
  for _, bell in ipairs(redis.call('SMEMBERS', key)) do strike(bell, 'E' .. r.id .. r.state) end
  redis.call('DEL', key)
  unmark(r, 'awaited')
end

-- The history is bounded in number and bytes; each call trims a little more than it added.
local function trim_history(queue, added)
  local key, config = queue_key('history', queue), config_of(queue)
  local bytes = tonumber(redis.call('HGET', queue_key('q', queue), 'history_bytes_now') or 0)
  local length = redis.call('ZCARD', key)
  for _, id in ipairs(redis.call('ZRANGE', key, 0, added + 16)) do
    if length <= config.history_length and bytes <= config.history_bytes then break end
    local r = load(id)
    z_drop(key, id)
    length = length - 1
    if r then
      bytes = bytes - r.bytes
      drop(r)
    end
  end
end

local function trim_histories()
  for queue, added in pairs(trim_wanted) do trim_history(queue, added) end
  if next(trim_wanted) then
    trim_wanted = {}
    flush()
  end
end

local function keep(r, for_ms)
  if has(r, 'unique_while_kept') == false then let_unique_go(r) end
  enter(r)
  save(r)
  if for_ms < FOREVER_MS then z_add(P .. 'retention', r.ended_at + for_ms, r.id) end
end

-- Reset the removal of a kept finished job whose policy has changed. The time counts from its end.
local function keep_anew(r)
  if has(r, 'in_history') or is_needed(r) then return end
  local for_ms = policy_of(r).result_ttl_ms
  if for_ms < FOREVER_MS then z_add(P .. 'retention', r.ended_at + for_ms, r.id) else z_drop(P .. 'retention', r.id) end
end

local function keep_as_history(r)
  let_unique_go(r)
  mark(r, 'in_history')
  enter(r)
  save(r)
  count(queue_key('q', r.queue), 'history_bytes_now', r.bytes)
  trim_wanted[r.queue] = (trim_wanted[r.queue] or 0) + 1
end

local function kept_ms_of(r)
  if r.state == STATE.finished then return policy_of(r).result_ttl_ms end
  return config_of(r.queue).retention_ms
end

-- Keep, move to the history, or remove a job that has ended, left its index, and is not needed by other jobs.
local function leave_behind(r, kept_ms)
  if kept_ms > 0 then
    keep(r, kept_ms)
  elseif config_of(r.queue).history_length > 0 then
    keep_as_history(r)
  else
    drop(r)
  end
end

-- Apply its own retention to an ended job that was kept for others. The time counts from its end. `is_spent`: the
-- parent has read its outcome, so a cancelled job is not kept any longer.
local function retire(r, is_spent)
  if is_needed(r) then return end
  leave(r)
  if has(r, 'has_outcome') and policy_of(r).result_ttl_ms == 0 then
    remove(P .. 'o:' .. r.id)
    unmark(r, 'has_outcome')
  end
  leave_behind(r, (is_spent and r.state == STATE.cancelled) and 0 or kept_ms_of(r))
end

-- Keep an ended job that another job begins to need: neither its retention nor the bounds of the history may remove it.
local function claim(r)
  if has(r, 'in_history') then
    leave(r)
    unmark(r, 'in_history')
    -- It released its key when it entered the history: another job may hold the key.
    unmark(r, 'unique_while_kept')
    count(queue_key('q', r.queue), 'history_bytes_now', -r.bytes)
    enter(r)
  end
  z_drop(P .. 'retention', r.id)
end

-- Store a job that has ended and left its old index: keep it for the jobs that need it and notify them, or apply its
-- retention.
local function come_to_rest(r, ignores_waiting)
  if is_needed(r) then
    keep(r, FOREVER_MS)
    report_end(r, ignores_waiting)
  else
    leave_behind(r, kept_ms_of(r))
  end
end

-- End a job that is in the index of its old state. `how.reach` 'all': a cancel also reaches members that are not its
-- children. `how.ignores_waiting`: its parent does not wait for siblings that are waiting themselves. `how.result`: the
-- result reported with the end.
local NO_HOW = {}
local function end_job(r, state, how)
  how = how or NO_HOW
  leave(r)
  r.state = state
  r.ended_at = now_ms
  r.deadline = 0
  unmark(r, 'cancel_requested')
  unmark(r, 'held')
  count(queue_key('q', r.queue), 'bytes', -r.bytes)
  announce_state(r)
  if owes_callback(r) then owe(r, how.result or '') end
  tell_awaiting(r)
  part_from_members(r, how.reach)
  come_to_rest(r, how.ignores_waiting)
end
