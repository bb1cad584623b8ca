-- Checks of each kind of key. A key is checked as a whole first, then entry by entry in bounded pages.
local batch = require 'batch'
local checkup_caps = require 'doctor.checkup_caps'
local checkup_dependencies = require 'doctor.checkup_dependencies'
local checkup_flows = require 'doctor.checkup_flows'
local checkup_job = require 'doctor.checkup_job'
local checkup_lanes = require 'doctor.checkup_lanes'
local checkup_lists = require 'doctor.checkup_lists'
local expected_index = require 'doctor.expected_index'
local findings = require 'doctor.findings'
local keys = require 'keys'
local caps = require 'limits.caps'
local lanes = require 'queues.lanes'

local checkup = {}

local PAGE = 200
local OWN_EXPIRY_MS = 172800000 -- set on keys that must expire and would not; no use of them lasts longer
local SCAN = {zset = 'ZSCAN', set = 'SSCAN', hash = 'HSCAN'}

local function drop_entry(name, kind, rest, entry)
  if kind == 'lane' then lanes.touch(string.match(rest, '^([^%z]*)%z(.*)$')) end
  if kind == 'holders' then checkup_lanes.free_holder(rest, string.sub(entry, 1, 16)) end
  if kind == 'under' then caps.met[rest] = caps.met[rest] or false end
  batch.z_remove(keys.named(name), entry)
end

-- Check an entry of an index of jobs: the job's record must imply it.
local function check_entry(name, kind, rest, entry)
  local id = expected_index.id_of_entry(entry)
  local job, is_unreadable = expected_index.safe_load(id)
  if is_unreadable then return end
  local place = job and expected_index.entries_of(job)[keys.named(name)]
  if place and place.member == entry then return end
  local code = kind == 'holders' and 'limit_drifted' or 'ghost'
  findings.report_job(code, id, function() drop_entry(name, kind, rest, entry) end)
end

-- What is known of a kind of key: its type; `whole` checks the key, `entry` each of its entries.
local function of_jobs(whole) return {type = 'zset', whole = whole, is_index = true} end
local function unchecked(type_name) return {type = type_name} end
local function temporary(type_name) return {type = type_name, expires = true} end

-- Return a check of entries for a key of which there is one per partition: it has no name of its own.
local function single(check)
  return function(_, ...) return check(...) end
end

local function belonging(kind)
  return function(id) checkup_lists.check_belonging(kind, id) end
end

-- Return a check of a list whose first entry a background loop handles when it is due.
local function loop(name)
  return function() checkup_lists.check_loops(name) end
end

local function timer(kind, index)
  return function(queue) checkup_lanes.check_timer(kind, queue, index) end
end

local function mark(name)
  return function(queue, limit_key) checkup_lanes.check_mark(name, queue, limit_key) end
end

local function schedule_name(index)
  return function(_, name) checkup_lists.check_scheduled_name(index, name) end
end

local function flow_entry(index)
  return function(_, id) checkup_flows.check_entry(index, id) end
end

local function callback_entry(list)
  return function(_, callback) checkup_lists.check_callback_entry(list, callback, true) end
end

local KIND = {
  -- Jobs
  j = {type = 'string', whole = function(id)
    local job = checkup_job.check_job(id)
    if job then
      checkup_dependencies.check_links(job)
      checkup_flows.check_job(job)
    end
  end},
  a = {type = 'list', whole = belonging('a')},
  o = {type = 'string', whole = belonging('o')},
  l = {type = 'list', whole = belonging('l')},
  e = {type = 'set', whole = belonging('e')},
  y = {type = 'hash', whole = belonging('y')},
  x = {type = 'stream', whole = belonging('x')},
  c = {type = 'zset', whole = checkup_dependencies.check_members_list, entry = checkup_dependencies.check_member},
  d = {type = 'zset', whole = checkup_dependencies.check_dependents_list, entry = checkup_dependencies.check_dependent},
  t = of_jobs(),
  u = of_jobs(),
  throttle = temporary('string'),
  work = {type = 'zset', whole = loop('work'), entry = single(checkup_lists.check_step)},
  restoring = unchecked('zset'),
  retention = {type = 'zset', whole = loop('retention'), entry = single(checkup_lists.check_retention)},
  expiry = of_jobs(loop('expiry')),
  ended = temporary('set'),
  tombstones = {type = 'zset', whole = loop('tombstones'), entry = single(checkup_lists.check_tombstone)},
  tombstone_queues = {type = 'hash', entry = single(checkup_lists.check_tombstone_queue)},
  flow = {type = 'hash', whole = checkup_flows.check_flow},
  flows = {type = 'zset', entry = flow_entry('flows')},
  flow_retention = {type = 'zset', whole = function()
    checkup_lists.check_loops('flow_retention')
    checkup_flows.check_steps()
  end, entry = flow_entry('flow_retention')},
  flow_steps = {type = 'string', whole = checkup_flows.check_steps},
  seq = unchecked('string'),
  token = unchecked('string'),

  -- Queues
  queues = {type = 'set', entry = single(checkup_job.check_listed)},
  q = {type = 'hash', whole = function(queue)
    checkup_job.check_listed(queue)
    checkup_lanes.check_pauses(queue)
  end},
  ready = of_jobs(),
  laned = of_jobs(),
  lane = of_jobs(checkup_lanes.check_lane),
  scheduled = of_jobs(timer('due', 'scheduled')),
  waiting = of_jobs(),
  suspended = of_jobs(timer('due', 'suspended')),
  running = of_jobs(timer('lease', 'running')),
  finished = of_jobs(),
  failed = of_jobs(),
  cancelled = of_jobs(),
  history = of_jobs(),
  heads = {type = 'zset', entry = function(queue, entry, score) checkup_lanes.check_head(queue, nil, entry, score) end},
  names = {type = 'zset', entry = checkup_lanes.check_lane_name},
  parked = {type = 'zset', whole = checkup_lanes.check_line, entry = function(name, entry, score)
    local queue, limit_key = checkup_lanes.split_name(name)
    checkup_lanes.check_head(queue, limit_key, entry, score)
  end},
  parked_at = {type = 'hash', entry = checkup_lanes.check_blocked_by},
  room = {type = 'zset', entry = mark('room')},
  rates = {type = 'zset', whole = timer('due', 'rates'), entry = mark('rates')},
  timers = {type = 'zset', whole = function(kind) checkup_lists.check_loops('timers:' .. kind) end},
  pauses = unchecked('hash'),
  weights = unchecked('hash'),
  turns = unchecked('zset'),
  entered = unchecked('hash'),
  waiters = temporary('zset'),
  m = temporary('hash'),
  idle = temporary('zset'),

  -- Limits
  limits = unchecked('hash'),
  limit_names = unchecked('hash'),
  limits_version = unchecked('string'),
  indexed_queues = {type = 'set', entry = single(checkup_job.check_indexed_queue)},
  limit_number = unchecked('string'),
  rematch = unchecked('string'),
  holders = of_jobs(checkup_lanes.check_holders),
  full_at = temporary('string'),
  parked_in = {type = 'set', entry = checkup_lanes.check_blocked_in},
  held = {type = 'set', entry = checkup_lanes.check_limit_key},
  caps = {type = 'hash', entry = checkup_caps.check_cap},
  keyed = {type = 'zset', entry = checkup_caps.check_capped_key},
  under = of_jobs(checkup_caps.check_limited_jobs),
  idle_caps = {type = 'zset', whole = loop('idle_caps'), entry = single(checkup_caps.check_idle_cap)},

  -- Numbers
  number = unchecked('string'),
  slip = temporary('string'),
  numbers = {type = 'hash', entry = single(checkup_lists.check_numbers)},
  numbered = {type = 'hash', entry = single(checkup_lists.check_numbered)},

  -- Workers and wakeups
  workers = unchecked('zset'),
  w = {type = 'hash', whole = checkup_lists.check_worker},
  wj = of_jobs(),
  push_workers = unchecked('zset'),
  push_full = unchecked('set'),
  wn = unchecked('zset'),
  bell = temporary('list'),
  hand = temporary('string'),
  tasks = temporary('zset'),
  tm = temporary('hash'),

  -- Schedules
  s = {type = 'hash', whole = checkup_lists.check_schedule},
  sj = {type = 'list', whole = checkup_lists.check_schedule_jobs},
  schedules = {type = 'zset', whole = loop('schedules'), entry = schedule_name('schedules')},
  schedule_names = {type = 'zset', entry = schedule_name('schedule_names')},

  -- Callbacks
  b = {type = 'hash', whole = checkup_lists.check_callback},
  owed = {type = 'zset', entry = callback_entry('owed')},
  od = {type = 'zset', entry = checkup_lists.check_destination_entry},
  owed_to = {type = 'zset', entry = single(checkup_lists.check_destination)},
  given_up = {type = 'zset', entry = callback_entry('given_up')},
  given_up_ids = {type = 'zset', entry = function(_, callback)
    checkup_lists.check_callback_entry('given_up_ids', callback, redis.call('ZSCORE', keys.given_up(), callback))
  end},
  debts = unchecked('string'),

  -- Events, tokens, figures
  followed = temporary('string'),
  events = temporary('stream'),
  tokens = unchecked('hash'),
  ended_sessions = temporary('zset'),
  tokens_version = unchecked('string'),
  stats = temporary('hash'),
  filters = unchecked('hash'),
  audit = unchecked('stream'),

  -- Alerts
  alerts = unchecked('hash'),
  alert_states = {type = 'hash', entry = single(checkup_lists.check_alert_state)},
  alert_history = unchecked('list'),
  alerts_due = unchecked('string'),
}

-- Check the type of a key and its expiry: temporary keys must expire, and others must not.
local function check_key(name, kind)
  local key, found = keys.named(name), redis.call('TYPE', keys.named(name)).ok
  if found == 'none' then return false end
  if not kind then
    findings.report_key('unknown_key', name)
    return false
  end
  if found ~= kind.type then
    findings.report_key('wrong_type', name)
    return false
  end
  local has_end = redis.call('PTTL', key) >= 0
  if has_end and not kind.expires then
    findings.report_key('would_expire', name, function() redis.call('PERSIST', key) end)
  elseif kind.expires and not has_end then
    findings.report_key('never_expires', name, function() redis.call('PEXPIRE', key, OWN_EXPIRY_MS) end)
  end
  return true
end

local function check_page(name, kind_name, kind, rest, cursor)
  local page = redis.call(SCAN[kind.type], keys.named(name), cursor, 'COUNT', PAGE)
  local step = kind.type == 'set' and 1 or 2
  for i = 1, #page[2], step do
    local entry = page[2][i]
    if kind.is_index then
      check_entry(name, kind_name, rest, entry)
    else
      kind.entry(rest, entry, kind.type == 'zset' and tonumber(page[2][i + 1]) or page[2][i + 1])
    end
  end
  findings.spend_budget(#page[2] / step)
  return page[1] ~= '0' and page[1] or nil
end

local function examine_step(name, cursor)
  local kind_name, rest = string.match(name, '^([^:]*):?(.*)$')
  local kind = KIND[kind_name]
  findings.spend_budget(1)
  if cursor == '0' then
    if not check_key(name, kind) then return nil end
    if kind.whole and kind.whole(rest) == false then return nil end
  end
  if not kind.is_index and not kind.entry then return nil end
  return check_page(name, kind_name, kind, rest, cursor)
end

-- Check a key, one step at a time. Returns nil when the key is done, else the next cursor. An error is a finding and
-- does not stop the examination.
function checkup.examine_key(name, cursor)
  local is_done, answer = pcall(examine_step, name, cursor)
  if is_done then return answer end
  findings.discard_pending()
  findings.report_key('not_examined', name)
  return nil
end

return checkup
