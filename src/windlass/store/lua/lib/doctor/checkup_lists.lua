-- uses: keys, clock, batch, record, dependencies, wakeups, ending, reports, pending_callbacks, numbers, schedules, findings, expected_index, checkup_job
-- Checks of lists beside the jobs: queues, retention, schedules, pending callbacks, workers, and keys that belong to a
-- job.

local function check_retention(id)
  local r, is_unreadable = safe_load(id)
  if is_unreadable then return end
  if r and is_ended(r) and not has(r, 'in_history') and not is_needed(r) then return end
  find(r and 'retention_wrong' or 'ghost', job_example(id), function() z_drop(P .. 'retention', id) end)
end

local BELONGS = {a = 'has_attempts', o = 'has_outcome', l = 'has_logs', e = 'awaited'}
local function check_belonging(kind, id)
  local r, is_unreadable = safe_load(id)
  if is_unreadable or (r and has(r, BELONGS[kind])) then return end
  if not r then
    return find('orphan', key_example(kind .. ':' .. id), function() redis.call('UNLINK', P .. kind .. ':' .. id) end)
  end
  find('belongings_unmarked', job_example(id), function()
    mark(r, BELONGS[kind])
    save(r)
  end)
end

-- Check that both directions agree and that the job exists.
local function check_numbers(id, number)
  local r, is_unreadable = safe_load(id)
  if is_unreadable then return end
  if not r then return find('ghost', job_example(id), function() forget_number(id) end) end
  check_counter('number', tonumber(number))
  if has(r, 'has_number') and redis.call('HGET', P .. 'numbered', number) == id then return end
  find('belongings_unmarked', job_example(id), function()
    redis.call('HSET', P .. 'numbered', number, id)
    mark(r, 'has_number')
    save(r)
  end)
end

local function check_numbered(number, id)
  if redis.call('HGET', P .. 'numbers', id) == number then return end
  find('ghost', job_example(id), function() redis.call('HDEL', P .. 'numbered', number) end)
end

local function check_schedule(name)
  local fields = redis.call('HMGET', schedule_key(name), 'next_at', 'paused', 'revision')
  if not fields[3] then return find('key_incomplete', key_example('s:' .. name)) end
  local at = tonumber(fields[1] or 0)
  local expected = (at == 0 or fields[2]) and math.huge or at
  local score = redis.call('ZSCORE', P .. 'schedules', name)
  local is_right = score and tonumber(score) == expected and redis.call('ZSCORE', P .. 'schedule_names', name) == '0'
  if is_right then return end
  find('schedule_not_listed', key_example('s:' .. name), function()
    redis.call('ZADD', P .. 'schedule_names', 0, name)
    plan_schedule(name, at)
  end)
end

local function check_scheduled_name(index, name)
  if redis.call('EXISTS', schedule_key(name)) == 1 then return end
  find('ghost', key_example('s:' .. name), function() redis.call('ZREM', P .. index, name) end)
end

local function check_schedule_jobs(name)
  if redis.call('EXISTS', schedule_key(name)) == 1 then return end
  find('orphan', key_example('sj:' .. name), function() redis.call('DEL', schedule_jobs_key(name)) end)
end

local function is_listed_owed(debt, at)
  local destination = to_of(debt)
  local marked_at = redis.call('ZSCORE', P .. 'owed_to', destination)
  return redis.call('ZSCORE', destination_key(destination), debt) == at and marked_at and tonumber(marked_at) <= tonumber(at)
end

local function check_debt(debt)
  local at = redis.call('ZSCORE', P .. 'owed', debt)
  local removed_at = redis.call('ZSCORE', P .. 'given_up', debt)
  if at and not removed_at and is_listed_owed(debt, at) then return end
  if removed_at and not at and redis.call('ZSCORE', P .. 'given_up_ids', debt) then return end
  find('callback_not_listed', job_example(string.sub(debt, 1, 16)), function()
    if removed_at and not at then return list_given_up(debt, removed_at) end
    unlist_given_up(debt)
    list_owed(debt, to_of(debt), at or now_ms)
    ring(OWED, nil)
  end)
end

-- Check an entry of a list of callbacks. `is_right`: the entry belongs in this list.
local function check_debt_entry(key, debt, is_right)
  if is_right and redis.call('EXISTS', debt_key(debt)) == 1 then return end
  find('ghost', job_example(string.sub(debt, 1, 16)), function() redis.call('ZREM', P .. key, debt) end)
end

local function check_owed_to_entry(destination, debt)
  if redis.call('ZSCORE', P .. 'owed', debt) and to_of(debt) == destination then return end
  find('ghost', job_example(string.sub(debt, 1, 16)), function()
    redis.call('ZREM', destination_key(destination), debt)
    mark_destination(destination)
  end)
end

local function check_destination(destination, at)
  local first = redis.call('ZRANGE', destination_key(destination), 0, 0, 'WITHSCORES')
  if first[2] and tonumber(first[2]) == tonumber(at) then return end
  find('ghost', key_example('od:' .. destination), function() mark_destination(destination) end)
end

-- Find jobs that an active worker has not listed in two heartbeats. A single heartbeat proves little, because the
-- answer that brings the job may be late. The recoverer takes all jobs of a silent worker back.
local function check_unclaimed(worker, silent_at)
  local said = redis.call('HMGET', P .. 'w:' .. worker, 'unclaimed', 'beat_ms')
  if not said[1] or silent_at <= now_ms then return end
  local beat_at = silent_at - tonumber(said[2])
  for id, packed in pairs(read_noted(said[1])) do
    local noted_at, r = struct.unpack('>I6', packed), safe_load(id)
    if r and r.state == STATE.running and r.worker == worker and r.started_at < noted_at and noted_at < beat_at then
      find('lease_unclaimed', job_example(id), function() give_back(r) end)
    end
  end
end

-- A worker without an entry in `workers` would stay forever. The repair makes the recoverer check it.
local function check_worker(worker)
  local silent_at = redis.call('ZSCORE', P .. 'workers', worker)
  if silent_at then return check_unclaimed(worker, tonumber(silent_at)) end
  find('worker_not_listed', key_example('w:' .. worker), function() redis.call('ZADD', P .. 'workers', now_ms, worker) end)
end

-- If the first entry of a list is long overdue, no background loop runs.
local BEHIND_MS = 300000
local function check_loops(name)
  local first = redis.call('ZRANGE', P .. name, 0, 0, 'WITHSCORES')[2]
  if first and tonumber(first) < now_ms - BEHIND_MS then find('loops_behind', key_example(name)) end
end

local WORK = {
  ['r.'] = true, ['f0'] = true, ['f1'] = true, ['el'] = true, ['ek'] = true, ['ea'] = true, ['eo'] = true, ['w.'] = true,
  ['d0'] = true, ['d6'] = true, ['d7'] = true, ['d8'] = true, ['dx'] = true,
}
local function check_work(item)
  if #item == 18 and WORK[string.sub(item, 1, 2)] then return end
  find('unknown_key', key_example('work'))
end
