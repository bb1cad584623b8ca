-- Decides what is simple, for the fast path of each operation. A simple job has a queue, a name, a payload and a
-- policy, and nothing that other keys must follow: no lane, unique key, tag, parent, limit or expiry, and no flag but
-- its codec and, once it is stored, `awaited`. A numbered job may also have a unique key that is not checked, and is in
-- the lane of its name. A queue is simple for an operation if a few known commands do all that the operation must do
-- there. A fast path reads first. If all is simple, it calls the same writers as the general path; else it has changed
-- nothing and returns nil, and the general path runs. A call is simple as a whole or not at all.
local STATE = require('constants').STATE
local FLAG = require('constants').FLAG
local DEFAULT = require('constants').DEFAULT
local clock = require 'clock'
local new_record = require 'jobs.new_record'
local record = require 'jobs.record'
local keys = require 'keys'
local script = require 'script'
local taker_filter = require 'workers.taker_filter'
local wakeups = require 'workers.wakeups'

local simple = {}

local ANY_WITH_STEPS = taker_filter.ANY_WITH_STEPS

simple.JOBS_MAX = 1000 -- of one call

local call, sub, unpack_bytes
local RUNNING_FORM
script.once(function()
  call, sub, unpack_bytes = redis.call, string.sub, struct.unpack
  RUNNING_FORM = 256 * record.FORMAT + STATE.running
end)

-- Most records differ only in id, times and payload. The parsed form of their other parts is kept from call to call; it
-- depends on their bytes only. A nil result and a long text are not kept.
local KEPT_MAX, KEPT_BYTES = 1000, 512
local function keep_parsed(parse)
  local kept, number = {}, 0
  return function(text)
    local found = kept[text]
    if found then return found end
    found = parse(text)
    if found and #text <= KEPT_BYTES then
      if number >= KEPT_MAX then kept, number = {}, 0 end
      kept[text], number = found, number + 1
    end
    return found
  end
end

-- Each option of a format costs as much as a command argument, even if it skips only a byte.
local STRINGS = '>Bc0Bc0I2c0Bc0I2c0I4' -- policy, queue, name, lane, unique key, lengths of tags and links as one number
local STRINGS_AT = record.HEADER_BYTES + 9 -- in a record, behind its fingerprint
local parse_strings = keep_parsed(function(strings)
  local policy, queue, name, lane, unique, others = unpack_bytes(STRINGS, strings)
  local lease_ms, timeout_ms, kept_ms, expires_at = 0, 0, 0, 0
  if policy ~= '' then lease_ms, timeout_ms, kept_ms, expires_at = unpack_bytes('>I6I6I6I6', policy, 5) end
  local has_only_name = lane == '' and others == 0 and expires_at == 0
  return {
    queue = queue, name = name, unique = unique, lease_ms = lease_ms, timeout_ms = timeout_ms, kept_ms = kept_ms,
    is_simple = has_only_name and unique == '', is_numbered = has_only_name and name ~= '',
    ends_simply = unique == '' and others == 0, -- its lane no longer matters
  }
end)

-- Parse the header of a new record as its caller packs it. Returns nil if the job has a run time.
local parse_header = keep_parsed(function(header)
  local format, _, flags, priority, _, _, ready_at = unpack_bytes(new_record.HEADER, header)
  if format ~= record.FORMAT or ready_at > 0 then return nil end
  local is_simple = flags <= record.CODEC_BITS
  return {
    flags = flags, priority = priority, score = string.format('%.0f', priority),
    start = new_record.pack_start(STATE.queued, flags, priority),
    start_in_name_lane = new_record.pack_start(STATE.queued, bit.bor(flags, FLAG.name_lane), priority),
    is_simple = is_simple,
    is_numbered = is_simple or flags - bit.band(flags, record.CODEC_BITS) == FLAG.unique_while_kept,
    strings_end = 16 + unpack_bytes('>I2', header, record.HEADER_BYTES - 1),
  }
end)

-- Return the parsed header and strings of a new job as its caller sends it, if `kind` ('is_simple' or 'is_numbered')
-- is true of both.
function simple.new_job(entry, terms, kind)
  local header = terms == '' and parse_header(sub(entry, 17, 16 + record.HEADER_BYTES))
  if not header or not header[kind] then return nil end
  local strings = parse_strings(sub(entry, 16 + STRINGS_AT, header.strings_end))
  if strings[kind] then return header, strings end
end

-- Return the strings of a stored record that a take can lease.
function simple.queued_job(raw, head_bytes)
  local strings = parse_strings(sub(raw, STRINGS_AT, head_bytes))
  return strings.is_simple and strings
end

-- Return strings, flags, start and worker of a running record that a holder of the token can end.
-- As HEADER in record.lua, with format and state as one number.
local HELD = '>I2I4i4I6I6I6I6I6I6I6c16I4I4I4I2'
local SIMPLE_FLAGS = record.SIMPLE_FLAGS
function simple.held_job(raw, token)
  local form, flags, _, _, _, _, started_at, _, own_token, _, worker, _, _, _, head_bytes = unpack_bytes(HELD, raw)
  if form ~= RUNNING_FORM or not SIMPLE_FLAGS[flags] or (token ~= 0 and token ~= own_token)
    or head_bytes > #raw then
    return nil
  end
  local strings = parse_strings(sub(raw, STRINGS_AT, head_bytes))
  if strings.ends_simply then return strings, flags, started_at, worker end
end

-- Return the header of a dispatched record as a table, and its strings, if a holder of the token can accept it.
function simple.dispatched_job(raw, token)
  local job = raw ~= '' and record.parse_header(raw)
  if not job or job.state ~= STATE.dispatched or not SIMPLE_FLAGS[job.flags] then return nil end
  if (token ~= 0 and token ~= job.token) or job.head_bytes > #raw then return nil end
  local strings = parse_strings(sub(raw, STRINGS_AT, job.head_bytes))
  if strings.ends_simply then return job, strings end
end

-- Queues

function simple.is_set(value, field) return tonumber(value or DEFAULT[field]) > 0 end

-- Return the configuration of a queue as stored. Most queues have nothing but the field `bytes`.
local BARE = {bytes = '0'}
function simple.config_of(names)
  local found = call('HGETALL', names.queue)
  if #found == 2 and found[1] == 'bytes' then return BARE end
  local config = {}
  for i = 1, #found, 2 do config[found[i]] = found[i + 1] end
  return config
end

local function is_bounded(config)
  return simple.is_set(config.max_length, 'max_length') or simple.is_set(config.max_bytes, 'max_bytes')
    or simple.is_set(config.aging_ms, 'aging_ms')
end

-- Return whether the queue is known, has no bounds, and orders simple jobs in its default lane by priority alone.
function simple.accepts(config)
  if config == BARE then return true end
  return config.bytes and not is_bounded(config) and not simple.is_set(config.name_lanes, 'name_lanes')
end

-- Return whether the queue is known, has no bounds, and orders jobs in name lanes by priority alone.
function simple.accepts_numbered(config)
  return config.bytes and not config.relane and not is_bounded(config)
    and not simple.is_set(config.fair_share, 'fair_share') and simple.is_set(config.name_lanes, 'name_lanes')
end

-- Return the wakeup lists for this many jobs, the waiters to remove, and the filter of each list; nil if a waiter does
-- not want every new job or the queue is paused.
function simple.waiters(names, config, size)
  if config.paused then return nil end
  local list = call('ZRANGE', names.waiters, 0, wakeups.WAITERS_READ - 1, 'WITHSCORES')
  local wakeup_lists, gone, filters = {}, {}, {}
  for i = 1, #list, 2 do
    if #wakeup_lists == size then break end
    if tonumber(list[i + 1]) >= clock.now_ms then
      local wakeup_list, filter = string.match(list[i], '^([^\1]*)\1(.*)$')
      if filter ~= '' and filter ~= ANY_WITH_STEPS then return nil end
      wakeup_lists[#wakeup_lists + 1], filters[#filters + 1] = wakeup_list, filter
    end
    gone[#gone + 1] = list[i]
  end
  return wakeup_lists, gone, filters
end

-- Return the instants of a queue's timers (lease, due); nil if something is due.
function simple.next_instants(names, queue)
  local overdue = tonumber(call('ZSCORE', names.lease_timer, queue) or math.huge)
  local due = tonumber(call('ZSCORE', names.due_timer, queue) or math.huge)
  if overdue <= clock.now_ms or due <= clock.now_ms then return nil end
  return overdue, due
end

-- Return the instants of a queue's timers, and whether takers wait there; nil if it has other lanes, followers or full
-- push workers, or something is due.
function simple.quiet_queue(names, queue)
  local found = call('EXISTS', names.heads, names.room, names.waiters, names.followed, names.push_full)
  if found > 1 or found == 1 and call('EXISTS', names.waiters) == 0 then return nil end
  local overdue, due = simple.next_instants(names, queue)
  return overdue, due, found == 1
end

-- Return whether a take is simple: no filter, running at once, no others on the wakeup list, a scan from the start, and
-- a partition that is not stopped.
function simple.is_take(filter, accept_ms, waiting, resume)
  return (filter == '' or filter == ANY_WITH_STEPS) and accept_ms == '0' and waiting ~= '1' and resume == '0'
    and not call('HGET', keys.root, 'stopped')
end

-- Return whether one of the queues keeps a history. Skips queues that are known to keep none.
function simple.is_history_kept(queues, has_none)
  for queue in pairs(queues) do
    local names = not has_none[queue] and keys.kept_of(queue)
    if names and simple.is_set(call('HGET', names.queue, 'history_length'), 'history_length') then return true end
  end
  return false
end

return simple
