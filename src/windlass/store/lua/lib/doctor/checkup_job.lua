-- uses: keys, batch, record, dependencies, lanes, wakeups, index, ending, numbers, propagation, findings, expected_index
-- Checks of a job's record against everything that must agree with it.
local listed -- queues that were checked in this call
local highest -- the counters, read once per call
at_start[#at_start + 1] = function() listed, highest = {}, {} end

local function list_queue(queue)
  redis.call('SADD', P .. 'queues', queue)
  redis.call('HINCRBY', queue_key('q', queue), 'bytes', 0)
end

local function check_listed(queue)
  if listed[queue] then return end
  listed[queue] = true
  if redis.call('SISMEMBER', P .. 'queues', queue) == 0 or redis.call('EXISTS', queue_key('q', queue)) == 0 then
    find('queue_not_listed', queue_example(queue), function() list_queue(queue) end)
  end
end

-- A counter that fell behind would give out a number twice.
local function check_counter(name, number)
  highest[name] = highest[name] or tonumber(redis.call('GET', P .. name) or 0)
  if number <= highest[name] then return end
  highest[name] = number
  find('counter_behind', key_example(name), function() redis.call('SET', P .. name, string.format('%.0f', number)) end)
end

local function check_places(r)
  for key, place in pairs(places_of(r)) do
    if not is_in_place(key, place) then
      return find('job_not_in_index', job_example(r.id), function() put_in_place(r) end)
    end
  end
end

local LOST = {has_attempts = 'a:', has_outcome = 'o:', has_logs = 'l:'}
local function check_belongings(r)
  for flag, kind in pairs(LOST) do
    if has(r, flag) and redis.call('EXISTS', P .. kind .. r.id) == 0 then
      find('belongings_lost', job_example(r.id), function()
        unmark(r, flag)
        save(r)
      end)
    end
  end
  if has(r, 'has_dependents') and redis.call('EXISTS', dependents_key(r.id)) == 0 then
    find('belongings_lost', job_example(r.id), function() release_claim(r.id) end)
  end
end

local function check_number(r)
  if has(r, 'has_number') and not redis.call('HGET', P .. 'numbers', r.id) then
    find('belongings_lost', job_example(r.id), function()
      unmark(r, 'has_number')
      save(r)
    end)
  end
end

-- Return whether a finished job was kept for other jobs that are gone.
local function is_kept_for_nobody(r)
  return r.state == STATE.finished and not has(r, 'in_history') and not has(r, 'has_dependents') and r.revision == 1
    and policy_of(r).result_ttl_ms < FOREVER_MS and links_of(r).parent == NOBODY
    and not redis.call('ZSCORE', P .. 'retention', r.id)
end

local function check_job(id)
  local r, is_unreadable = safe_load(id)
  count_job()
  if is_unreadable then return find('record_unreadable', job_example(id)) end
  if not r then return end
  check_listed(r.queue)
  check_counter('token', r.token)
  check_counter('seq', r.sequence)
  check_counter('number', number_in(id) or 0)
  check_number(r)
  check_places(r)
  check_belongings(r)
  if is_kept_for_nobody(r) then find('kept_for_nobody', job_example(id), function() retire(r, false) end) end
  return r
end
