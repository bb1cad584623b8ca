-- Fast path of take: simple jobs of default lanes (simple.lua), alone or together with finishes.
local DEFAULT = require('constants').DEFAULT
local batch = require 'batch'
local clock = require 'clock'
local fast_finish = require 'fast_path.finish'
local simple = require 'fast_path.simple'
local counters = require 'jobs.counters'
local record = require 'jobs.record'
local keys = require 'keys'
local lease_header = require 'leases.lease_header'
local lanes = require 'queues.lanes'
local script = require 'script'
local wakeups = require 'workers.wakeups'

local fast_take = {}

local NOTHING = {}

local call, sub
script.once(function() call, sub = redis.call, string.sub end)

-- Return the lease of one kind of job in this call: deadline, instant at which the recoverer checks it, and the bytes
-- of a first lease. Returns nil if such a lease is not simple.
local function make_terms(leases, of_queue, strings)
  local lease_ms, timeout_ms = leases.lease_ms, strings.timeout_ms
  if lease_ms < 0 then return nil end -- it depends on the job
  if lease_ms == 0 then lease_ms = strings.lease_ms end
  if lease_ms == 0 then lease_ms = of_queue.lease_ms end
  if lease_ms >= record.FOREVER_MS then return nil end
  local deadline = clock.now_ms + lease_ms
  local at = timeout_ms > 0 and timeout_ms < lease_ms and clock.now_ms + timeout_ms or deadline
  if at < of_queue.overdue then return nil end
  local terms = {deadline = deadline, at = string.format('%.0f', at),
    first = lease_header.pack_terms(deadline, leases.worker)}
  of_queue.terms[strings] = terms
  return terms
end

local function note_started_before(leases, id, raw)
  local started_at = record.parse_header(raw).started_at
  if started_at == 0 then return end
  local before = leases.started_before
  before[#before + 1] = id
  before[#before + 1] = started_at
end

local function count_wait(of_queue, waited_ms)
  local bucket = counters.wait_bucket(waited_ms)
  of_queue.buckets[bucket] = (of_queue.buckets[bucket] or 0) + 1
  of_queue.waited_ms = of_queue.waited_ms + waited_ms
end

-- Of a long record only the header is written; the other records are written together.
local function add_record(leases, key, leased)
  if #leased > record.SMALL_BYTES then
    leases.patched[key] = sub(leased, 1, record.HEADER_BYTES)
    return
  end
  local written, size = leases.written, leases.size
  written[size + 1] = key
  written[size + 2] = leased
  leases.size = size + 2
end

-- Looked up once: they are called for every job.
local read_queued, pack_first, queued_job = lease_header.read_queued, lease_header.pack_first, simple.queued_job
local read_member = lanes.read_member

-- Add a lease to `leases`; return false if it is not simple.
local function add_lease(leases, of_queue, member, key, raw)
  local kept, is_first, flags, head_bytes = read_queued(raw)
  local strings = kept and queued_job(raw, head_bytes)
  local terms = strings and (of_queue.terms[strings] or make_terms(leases, of_queue, strings))
  if not terms then return false end
  local ready_at, _, id = read_member(member)
  local number, leased = leases.number + 1, nil
  local token = leases.token + number
  if is_first then
    leased = pack_first(flags, kept, leases.start, token, terms.first, raw)
  else
    note_started_before(leases, id, raw)
    leased = lease_header.pack_again(raw, token, terms.deadline, leases.worker)
  end
  leases.number, leases.answers[number] = number, id .. leased
  add_record(leases, key, leased)
  leases.holding[2 * number - 1] = leases.instant
  leases.holding[2 * number] = id
  local running, size = of_queue.running, of_queue.size
  running[size + 1] = terms.at
  running[size + 2] = id
  of_queue.size = size + 2
  count_wait(of_queue, ready_at < clock.now_ms and clock.now_ms - ready_at or 0)
  return true
end

-- Add the jobs of a queue; return nil if not all of them are simple.
local function add_leases(leases, queue, most)
  local names = keys.kept_of(queue)
  local found = call('HMGET', names.queue, 'paused', 'fair_share', 'lease_ms', 'history_length')
  if found[1] or simple.is_set(found[2], 'fair_share') then return nil end
  leases.has_no_history[queue] = not simple.is_set(found[4], 'history_length')
  local overdue, due, do_others_wait = simple.quiet_queue(names, queue)
  if not overdue then return nil end
  leases.following = math.min(leases.following, overdue, due)
  local members = call('ZRANGE', names.ready, 0, most - 1)
  if #members == 0 then return true end
  -- The general path offers the rest of a full batch to other takers.
  if do_others_wait and #members == most and call('ZCARD', names.ready) > most then return nil end
  local of_queue = {
    queue = queue, members = members, lease_ms = tonumber(found[3] or DEFAULT.lease_ms), overdue = overdue,
    terms = {}, running = {}, size = 0, buckets = {}, waited_ms = 0,
  }
  local job_keys = {}
  for i = 1, #members do job_keys[i] = names.job .. sub(members[i], 13) end
  local raws = record.read_whole(job_keys)
  for i = 1, #job_keys do
    if not raws[i] or not add_lease(leases, of_queue, members[i], job_keys[i], raws[i]) then return nil end
  end
  leases.of_queue[#leases.of_queue + 1] = of_queue
  return true
end

local function no_leases(lease_ms, worker)
  return {
    of_queue = {}, following = math.huge, started_before = {}, has_no_history = {}, lease_ms = lease_ms,
    worker = worker, number = 0, answers = {}, written = {}, size = 0, patched = {}, holding = {},
    token = tonumber(call('GET', keys.token()) or 0), start = lease_header.pack_start(),
    instant = string.format('%.0f', clock.now_ms),
  }
end

-- Return leases of up to `most` jobs of the queues from `queues_at` on, in their order; nil if not all of them are
-- simple, or if there are none and steps on dependencies are pending. Changes nothing.
local function read_leases(arguments, queues_at, most, worker, lease_ms)
  if most > simple.JOBS_MAX then return nil end
  local leases = no_leases(lease_ms, worker)
  for i = queues_at, #arguments do
    if leases.number >= most then break end
    for _, of_queue in ipairs(leases.of_queue) do
      if of_queue.queue == arguments[i] then return nil end
    end
    if not add_leases(leases, arguments[i], most - leases.number) then return nil end
  end
  if leases.number == 0 and call('EXISTS', keys.steps()) == 1 then return nil end
  return leases
end

local function write_records(leases)
  if leases.size > 0 then call('MSET', unpack(leases.written)) end
  for key, header in pairs(leases.patched) do call('SETRANGE', key, 0, header) end
  call('INCRBY', keys.token(), leases.number)
  if leases.worker ~= record.NO_ID then batch.z_add_many(keys.worker_jobs(leases.worker), leases.holding) end
end

-- Write the leases and return the answer of take.
local function write_leases(leases)
  local following = leases.following < math.huge and leases.following or 0
  if leases.number == 0 then return {clock.now_ms, following, 0, NOTHING, NOTHING, 0} end
  for _, of_queue in ipairs(leases.of_queue) do
    local queue, names = of_queue.queue, keys.kept_of(of_queue.queue)
    call('ZREM', names.ready, unpack(of_queue.members))
    batch.z_add_many(names.running, of_queue.running)
    for bucket, number in pairs(of_queue.buckets) do counters.write_now(names, queue, bucket, number) end
    counters.write_now(names, queue, 'wait_ms', of_queue.waited_ms)
  end
  write_records(leases)
  return {clock.now_ms, following, 0, leases.answers, leases.started_before, 0}
end

local function take(arguments, queues_at, leases, filter, worker, wakeup_list, registered_ms, waiting)
  if leases.number == 0 then
    local hand = waiting == '2' and worker
    wakeups.register_taker(arguments, queues_at, wakeup_list, filter, tonumber(registered_ms), hand)
  end
  return write_leases(leases)
end

function fast_take.take(arguments, filter, most, worker, lease_ms, accept_ms, wakeup_list, registered_ms, waiting,
    resume)
  if not simple.is_take(filter, accept_ms, waiting, resume) then return nil end
  local leases = read_leases(arguments, 11, tonumber(most), worker, tonumber(lease_ms))
  return leases and take(arguments, 11, leases, filter, worker, wakeup_list, registered_ms, waiting)
end

function fast_take.finish_and_take(arguments, filter, most, worker, lease_ms, accept_ms, wakeup_list, registered_ms,
    waiting, resume, finishes, failures)
  if failures ~= '0' or not simple.is_take(filter, accept_ms, waiting, resume) then return nil end
  finishes = tonumber(finishes)
  -- Queues first: three commands show whether they have other lanes.
  local queues_at = 13 + finishes
  local leases = read_leases(arguments, queues_at, tonumber(most), worker, tonumber(lease_ms))
  if not leases then return nil end
  local ends = nil
  if finishes > 0 then
    ends = fast_finish.read(arguments, 13, finishes)
    if not ends or simple.is_history_kept(ends.of_queue, leases.has_no_history) then return nil end
  end
  -- In this order the indexes of running jobs do not become empty in between.
  local taken = take(arguments, queues_at, leases, filter, worker, wakeup_list, registered_ms, waiting)
  if ends then fast_finish.write(ends) end
  return {ends and finishes or NOTHING, NOTHING, taken}
end

return fast_take
