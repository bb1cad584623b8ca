-- Checks of each kind of key. A key is checked as a whole first, then entry by entry in bounded pages.
local batch = require 'batch'
local checkup_caps = require 'doctor.checkup_caps'
local checkup_dependencies = require 'doctor.checkup_dependencies'
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
checkup.SCAN = {zset = 'ZSCAN', set = 'SSCAN', hash = 'HSCAN'}

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
  findings.add(kind == 'holders' and 'limit_drifted' or 'ghost', findings.job_example(id), function() drop_entry(name, kind, rest, entry) end)
end

local function of_jobs(whole) return {type = 'zset', whole = whole, is_index = true} end
local function plain(type_name) return {type = type_name} end
local function passing(type_name) return {type = type_name, expires = true} end

local KIND = {
  j = {type = 'string', whole = function(id)
    local job = checkup_job.check_job(id)
    if job then checkup_dependencies.check_links(job) end
  end},
  a = {type = 'list', whole = function(id) checkup_lists.check_belonging('a', id) end},
  o = {type = 'string', whole = function(id) checkup_lists.check_belonging('o', id) end},
  l = {type = 'list', whole = function(id) checkup_lists.check_belonging('l', id) end},
  e = {type = 'set', whole = function(id) checkup_lists.check_belonging('e', id) end},
  c = {type = 'zset', whole = checkup_dependencies.check_members_list, entry = checkup_dependencies.check_member},
  d = {type = 'zset', whole = checkup_dependencies.check_dependents_list, entry = checkup_dependencies.check_dependent},
  work = {type = 'zset', whole = function() checkup_lists.check_loops('work') end, entry = function(_, item) checkup_lists.check_work(item) end},
  queues = {type = 'set', entry = function(_, queue) checkup_job.check_listed(queue) end},
  q = {type = 'hash', whole = function(queue)
    checkup_job.check_listed(queue)
    checkup_lanes.check_pauses(queue)
  end},
  scheduled = of_jobs(function(queue) checkup_lanes.check_timer('due', queue, 'scheduled') end),
  running = of_jobs(function(queue) checkup_lanes.check_timer('lease', queue, 'running') end),
  ready = of_jobs(), laned = of_jobs(), waiting = of_jobs(), finished = of_jobs(), failed = of_jobs(), cancelled = of_jobs(),
  history = of_jobs(), u = of_jobs(), t = of_jobs(), wj = of_jobs(),
  expiry = of_jobs(function() checkup_lists.check_loops('expiry') end),
  lane = of_jobs(checkup_lanes.check_lane), holders = of_jobs(checkup_lanes.check_holders),
  heads = {type = 'zset', entry = function(queue, entry, score) checkup_lanes.check_head(queue, nil, entry, score) end},
  names = {type = 'zset', entry = checkup_lanes.check_lane_name},
  parked = {type = 'zset', whole = checkup_lanes.check_line, entry = function(name, entry, score)
    local queue, limit_key = checkup_lanes.split_name(name)
    checkup_lanes.check_head(queue, limit_key, entry, score)
  end},
  parked_at = {type = 'hash', entry = checkup_lanes.check_blocked_by},
  room = {type = 'zset', entry = function(queue, limit_key) checkup_lanes.check_mark('room', queue, limit_key) end},
  rates = {type = 'zset', whole = function(queue) checkup_lanes.check_timer('due', queue, 'rates') end,
    entry = function(queue, limit_key) checkup_lanes.check_mark('rates', queue, limit_key) end},
  parked_in = {type = 'set', entry = checkup_lanes.check_blocked_in},
  held = {type = 'set', entry = checkup_lanes.check_held},
  under = of_jobs(checkup_caps.check_under),
  keyed = {type = 'zset', entry = checkup_caps.check_keyed},
  caps = {type = 'hash', entry = checkup_caps.check_cap},
  idle_caps = {type = 'zset', whole = function() checkup_lists.check_loops('idle_caps') end,
    entry = function(_, limit_key, idle_until) checkup_caps.check_idle_cap(limit_key, idle_until) end},
  retention = {type = 'zset', whole = function() checkup_lists.check_loops('retention') end, entry = function(_, id) checkup_lists.check_retention(id) end},
  s = {type = 'hash', whole = checkup_lists.check_schedule},
  sj = {type = 'list', whole = checkup_lists.check_schedule_jobs},
  schedules = {type = 'zset', whole = function() checkup_lists.check_loops('schedules') end,
    entry = function(_, name) checkup_lists.check_scheduled_name('schedules', name) end},
  schedule_names = {type = 'zset', entry = function(_, name) checkup_lists.check_scheduled_name('schedule_names', name) end},
  b = {type = 'hash', whole = checkup_lists.check_callback},
  owed = {type = 'zset', entry = function(_, callback) checkup_lists.check_callback_entry('owed', callback, true) end},
  od = {type = 'zset', entry = checkup_lists.check_destination_entry},
  owed_to = {type = 'zset', entry = function(_, destination, at) checkup_lists.check_destination(destination, at) end},
  given_up = {type = 'zset', entry = function(_, callback) checkup_lists.check_callback_entry('given_up', callback, true) end},
  given_up_ids = {type = 'zset', entry = function(_, callback)
    checkup_lists.check_callback_entry('given_up_ids', callback, redis.call('ZSCORE', keys.given_up(), callback))
  end},
  w = {type = 'hash', whole = checkup_lists.check_worker},
  number = plain('string'),
  numbers = {type = 'hash', entry = function(_, id, number) checkup_lists.check_numbers(id, number) end},
  numbered = {type = 'hash', entry = function(_, number, id) checkup_lists.check_numbered(number, id) end},
  pauses = plain('hash'), weights = plain('hash'), turns = plain('zset'), entered = plain('hash'),
  timers = {type = 'zset', whole = function(rest) checkup_lists.check_loops('timers:' .. rest) end}, limits = plain('hash'), limit_names = plain('hash'), limits_version = plain('string'),
  limit_number = plain('string'), rematch = plain('string'), seq = plain('string'), token = plain('string'),
  tokens = plain('hash'), tokens_version = plain('string'), audit = plain('stream'),
  workers = plain('zset'), debts = plain('string'), restoring = plain('zset'),
  m = passing('hash'), throttle = passing('string'), slip = passing('string'), ended = passing('set'), wakeup_list = passing('list'),
  hand = passing('string'), ended_sessions = passing('zset'),
  waiters = passing('zset'), full_at = passing('string'), followed = passing('string'), events = passing('stream'),
  stats = passing('hash'), idle = passing('zset'), push_workers = plain('zset'), push_full = plain('set'), wn = plain('zset'),
}

-- Check the type of a key and its expiry: temporary keys must expire, and others must not.
local function check_key(name, kind)
  local key, found = keys.named(name), redis.call('TYPE', keys.named(name)).ok
  if found == 'none' then return false end
  if not kind then
    findings.add('unknown_key', findings.key_example(name))
    return false
  end
  if found ~= kind.type then
    findings.add('wrong_type', findings.key_example(name))
    return false
  end
  local has_end = redis.call('PTTL', key) >= 0
  if has_end and not kind.expires then
    findings.add('would_expire', findings.key_example(name), function() redis.call('PERSIST', key) end)
  elseif kind.expires and not has_end then
    findings.add('never_expires', findings.key_example(name), function() redis.call('PEXPIRE', key, OWN_EXPIRY_MS) end)
  end
  return true
end

local function check_page(name, kind_name, kind, rest, cursor)
  local page = redis.call(checkup.SCAN[kind.type], keys.named(name), cursor, 'COUNT', PAGE)
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

local function look_at_key(name, cursor)
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
  local is_done, answer = pcall(look_at_key, name, cursor)
  if is_done then return answer end
  findings.discard_pending()
  findings.add('not_examined', findings.key_example(name))
  return nil
end

return checkup
