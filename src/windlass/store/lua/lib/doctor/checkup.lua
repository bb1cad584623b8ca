-- uses: keys, batch, record, lanes, findings, expected_index, checkup_job, checkup_dependencies, checkup_lanes, checkup_lists, caps, checkup_caps
-- Checks of each kind of key. A key is checked as a whole first, then entry by entry in bounded pages.
local PAGE = 200
local OWN_EXPIRY_MS = 172800000 -- set on keys that must expire and would not; no use of them lasts longer
local SCAN = {zset = 'ZSCAN', set = 'SSCAN', hash = 'HSCAN'}

local function drop_entry(name, kind, rest, entry)
  if kind == 'lane' then touch_lane(string.match(rest, '^([^%z]*)%z(.*)$')) end
  if kind == 'holders' then free_holder(rest, string.sub(entry, 1, 16)) end
  if kind == 'under' then met[rest] = met[rest] or false end
  z_drop(P .. name, entry)
end

-- Check an entry of an index of jobs: the job's record must imply it.
local function check_entry(name, kind, rest, entry)
  local id = id_of_entry(entry)
  local r, is_unreadable = safe_load(id)
  if is_unreadable then return end
  local place = r and places_of(r)[P .. name]
  if place and place.member == entry then return end
  find(kind == 'holders' and 'limit_drifted' or 'ghost', job_example(id), function() drop_entry(name, kind, rest, entry) end)
end

local function of_jobs(whole) return {type = 'zset', whole = whole, is_index = true} end
local function plain(type_name) return {type = type_name} end
local function passing(type_name) return {type = type_name, expires = true} end

local KIND = {
  j = {type = 'string', whole = function(id)
    local r = check_job(id)
    if r then check_kin(r) end
  end},
  a = {type = 'list', whole = function(id) check_belonging('a', id) end},
  o = {type = 'string', whole = function(id) check_belonging('o', id) end},
  l = {type = 'list', whole = function(id) check_belonging('l', id) end},
  e = {type = 'set', whole = function(id) check_belonging('e', id) end},
  c = {type = 'zset', whole = check_members_list, entry = check_member},
  d = {type = 'zset', whole = check_dependents_list, entry = check_dependent},
  work = {type = 'zset', whole = function() check_loops('work') end, entry = function(_, item) check_work(item) end},
  queues = {type = 'set', entry = function(_, queue) check_listed(queue) end},
  q = {type = 'hash', whole = function(queue)
    check_listed(queue)
    check_pauses(queue)
  end},
  scheduled = of_jobs(function(queue) check_timer('due', queue, 'scheduled') end),
  running = of_jobs(function(queue) check_timer('lease', queue, 'running') end),
  ready = of_jobs(), laned = of_jobs(), waiting = of_jobs(), finished = of_jobs(), failed = of_jobs(), cancelled = of_jobs(),
  history = of_jobs(), u = of_jobs(), t = of_jobs(), wj = of_jobs(),
  expiry = of_jobs(function() check_loops('expiry') end),
  lane = of_jobs(check_lane), holders = of_jobs(check_holders),
  heads = {type = 'zset', entry = function(queue, entry, score) check_head(queue, nil, entry, score) end},
  names = {type = 'zset', entry = check_lane_name},
  parked = {type = 'zset', whole = check_line, entry = function(name, entry, score)
    local queue, holdup = split_name(name)
    check_head(queue, holdup, entry, score)
  end},
  parked_at = {type = 'hash', entry = check_parked_at},
  room = {type = 'zset', entry = function(queue, holdup) check_mark('room', queue, holdup) end},
  rates = {type = 'zset', whole = function(queue) check_timer('due', queue, 'rates') end,
    entry = function(queue, holdup) check_mark('rates', queue, holdup) end},
  parked_in = {type = 'set', entry = check_parked_in},
  held = {type = 'set', entry = check_held},
  under = of_jobs(check_under),
  keyed = {type = 'zset', entry = check_keyed},
  caps = {type = 'hash', entry = check_cap},
  idle_caps = {type = 'zset', whole = function() check_loops('idle_caps') end,
    entry = function(_, holdup, idle_until) check_idle_cap(holdup, idle_until) end},
  retention = {type = 'zset', whole = function() check_loops('retention') end, entry = function(_, id) check_retention(id) end},
  s = {type = 'hash', whole = check_schedule},
  sj = {type = 'list', whole = check_schedule_jobs},
  schedules = {type = 'zset', whole = function() check_loops('schedules') end,
    entry = function(_, name) check_scheduled_name('schedules', name) end},
  schedule_names = {type = 'zset', entry = function(_, name) check_scheduled_name('schedule_names', name) end},
  b = {type = 'hash', whole = check_debt},
  owed = {type = 'zset', entry = function(_, debt) check_debt_entry('owed', debt, true) end},
  od = {type = 'zset', entry = check_owed_to_entry},
  owed_to = {type = 'zset', entry = function(_, destination, at) check_destination(destination, at) end},
  given_up = {type = 'zset', entry = function(_, debt) check_debt_entry('given_up', debt, true) end},
  given_up_ids = {type = 'zset', entry = function(_, debt)
    check_debt_entry('given_up_ids', debt, redis.call('ZSCORE', P .. 'given_up', debt))
  end},
  w = {type = 'hash', whole = check_worker},
  number = plain('string'),
  numbers = {type = 'hash', entry = function(_, id, number) check_numbers(id, number) end},
  numbered = {type = 'hash', entry = function(_, number, id) check_numbered(number, id) end},
  pauses = plain('hash'), weights = plain('hash'), turns = plain('zset'), entered = plain('hash'),
  timers = {type = 'zset', whole = function(rest) check_loops('timers:' .. rest) end}, limits = plain('hash'), limit_names = plain('hash'), limits_version = plain('string'),
  limit_number = plain('string'), rematch = plain('string'), seq = plain('string'), token = plain('string'),
  tokens = plain('hash'), tokens_version = plain('string'), audit = plain('stream'),
  workers = plain('zset'), debts = plain('string'), restoring = plain('zset'),
  m = passing('hash'), throttle = passing('string'), slip = passing('string'), ended = passing('set'), bell = passing('list'),
  hand = passing('string'), ended_sessions = passing('zset'),
  waiters = passing('zset'), full_at = passing('string'), followed = passing('string'), events = passing('stream'),
  stats = passing('hash'), idle = passing('zset'), push_workers = plain('zset'), push_full = plain('set'), wn = plain('zset'),
}

-- Check the type of a key and its expiry: temporary keys must expire, and others must not.
local function check_key(name, kind)
  local key, found = P .. name, redis.call('TYPE', P .. name).ok
  if found == 'none' then return false end
  if not kind then
    find('unknown_key', key_example(name))
    return false
  end
  if found ~= kind.type then
    find('wrong_type', key_example(name))
    return false
  end
  local has_end = redis.call('PTTL', key) >= 0
  if has_end and not kind.expires then
    find('would_expire', key_example(name), function() redis.call('PERSIST', key) end)
  elseif kind.expires and not has_end then
    find('never_expires', key_example(name), function() redis.call('PEXPIRE', key, OWN_EXPIRY_MS) end)
  end
  return true
end

local function check_page(name, kind_name, kind, rest, cursor)
  local page = redis.call(SCAN[kind.type], P .. name, cursor, 'COUNT', PAGE)
  local step = kind.type == 'set' and 1 or 2
  for i = 1, #page[2], step do
    local entry = page[2][i]
    if kind.is_index then
      check_entry(name, kind_name, rest, entry)
    else
      kind.entry(rest, entry, kind.type == 'zset' and tonumber(page[2][i + 1]) or page[2][i + 1])
    end
  end
  spend_budget(#page[2] / step)
  return page[1] ~= '0' and page[1] or nil
end

local function look_at_key(name, cursor)
  local kind_name, rest = string.match(name, '^([^:]*):?(.*)$')
  local kind = KIND[kind_name]
  spend_budget(1)
  if cursor == '0' then
    if not check_key(name, kind) then return nil end
    if kind.whole and kind.whole(rest) == false then return nil end
  end
  if not kind.is_index and not kind.entry then return nil end
  return check_page(name, kind_name, kind, rest, cursor)
end

-- Check a key, one step at a time. Returns nil when the key is done, else the next cursor. An error is a finding and
-- does not stop the examination.
local function examine_key(name, cursor)
  local is_done, answer = pcall(look_at_key, name, cursor)
  if is_done then return answer end
  discard_pending()
  find('not_examined', key_example(name))
  return nil
end
