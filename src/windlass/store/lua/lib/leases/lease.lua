-- Leases on the general path: a job gets a token, a deadline and a holder (lease_header.lua).
local STATE = require('constants').STATE
local batch = require 'batch'
local clock = require 'clock'
local durable_state = require 'durable.state'
local attempts = require 'jobs.attempts'
local counters = require 'jobs.counters'
local ending = require 'jobs.ending'
local index = require 'jobs.index'
local job_note = require 'jobs.job_note'
local record = require 'jobs.record'
local keys = require 'keys'
local expiry = require 'leases.expiry'
local lease_header = require 'leases.lease_header'
local reports = require 'leases.reports'
local blocked_lanes = require 'limits.blocked_lanes'
local limits = require 'limits.limits'
local configuration = require 'queues.configuration'
local fair_share = require 'queues.fair_share'
local scan = require 'queues.scan'
local selection = require 'queues.selection'
local script = require 'script'
local wakeups = require 'workers.wakeups'

local lease = {}

local ROUNDS = 4 -- per call, in which expired or used-up heads are dropped and replaced
local LOOKED_AT_BEHIND = 64 -- heads, once some were dropped: more such heads may follow

function lease.load_whole(ids)
  local loaded, job_keys = {}, {}
  for i, id in ipairs(ids) do job_keys[i] = keys.job(id) end
  for i, raw in ipairs(record.read_whole(job_keys)) do
    if raw then loaded[#loaded + 1] = record.decode(ids[i], raw) end
  end
  return loaded
end

local used_up -- jobs that had no attempt left
local started_before -- {id, instant, ...} of jobs that were leased before
script.on_start(function() used_up, started_before = 0, {} end)
function lease.count_used_up() return used_up end
function lease.list_started_before() return started_before end

-- Return false if the job must not start. It is ended instead.
function lease.may_start(job)
  local policy = record.policy_of(job)
  if index.may_expire(job) and policy.expires_at <= clock.now_ms then
    attempts.log(job, 'expired', '')
    counters.add(job.queue, 'failed', 1)
    ending.end_job(job, STATE.failed)
    return false
  end
  if job.state == STATE.running and policy.max_attempts > 0 and job.attempt >= policy.max_attempts then
    used_up = used_up + 1
    attempts.log(job, 'lease_expired', '')
    counters.add(job.queue, 'failed', 1)
    ending.end_job(job, STATE.failed)
    return false
  end
  return true
end

local function usual_ms(job)
  local own = record.policy_of(job).lease_ms
  return own > 0 and own or configuration.of(job.queue).lease_ms
end

-- Return the length of a lease that no report extends. nil: the queue renews leases, or the lease has no end.
function lease.fixed_ms(job)
  if configuration.of(job.queue).lease_renewal ~= 0 then return nil end
  local length_ms = usual_ms(job)
  return length_ms < record.FOREVER_MS and length_ms or nil
end

-- A negative length in the terms is for jobs that have no own lease with an end, and no fixed one.
local function lease_ms_of(job, terms)
  local asked_ms = terms.lease_ms
  if asked_ms > 0 then return asked_ms end
  local own = record.policy_of(job).lease_ms
  local has_no_end = own == 0 or own >= record.FOREVER_MS
  if asked_ms < 0 and has_no_end and not lease.fixed_ms(job) then return -asked_ms end
  return usual_ms(job)
end

-- Return the deadline of a lease that begins at an instant; 0: none.
local function deadline_from(job, at, lease_ms)
  if lease_ms >= record.FOREVER_MS then return 0 end
  if not record.has(job, 'whole_seconds') then return at + lease_ms end
  -- The shortest lease (1 ms) stands for no lease: its deadline must not be in the next second.
  local deadline = lease_ms > 1 and at + lease_ms or at
  return deadline - deadline % 1000
end

-- Return the deadline of a lease that is granted or extended now; 0: none.
local function deadline_of(job, terms) return deadline_from(job, clock.now_ms, lease_ms_of(job, terms)) end

-- Accept a dispatched job: its lease begins. Returns its deadline as text.
function lease.accept(id, token, lease_ms)
  local job, refused = reports.find_held(id, token)
  if not job then return refused end
  if job.state == STATE.dispatched then
    index.leave(job)
    lease_header.accept(job, deadline_of(job, {lease_ms = lease_ms}))
    index.enter(job)
    record.save(job)
  end
  return string.format('%.0f', job.deadline)
end

-- Return whether the job has a deadline that no report moves.
function lease.is_fixed(job)
  return job.state == STATE.running and job.deadline > 0 and configuration.of(job.queue).lease_renewal == 0
end

-- Extend a lease, unless it is fixed. Returns a refusal, or nil.
function lease.renew(job, lease_ms)
  if lease.is_fixed(job) then return nil end
  return lease.prolong(job, lease_ms)
end

-- Extend a lease with a report, if that moves its deadline by a tenth of its length, or by a second: reports may follow
-- each other within milliseconds, and each extension costs as much as they do. Returns a refusal, or nil.
local MOVED_MS = 1000
function lease.renew_in_passing(job, lease_ms)
  local deadline = deadline_of(job, {lease_ms = lease_ms})
  local least_ms = math.min(MOVED_MS, (deadline - clock.now_ms) / 10)
  if not record.has(job, 'retakeable') and deadline > 0 and deadline - job.deadline < least_ms then return nil end
  return lease.renew(job, lease_ms)
end

-- Extend a lease, also a fixed one. Returns a refusal, or nil.
function lease.prolong(job, lease_ms)
  if job.state ~= STATE.running or job.deadline == 0 then return nil end
  if record.has(job, 'retakeable') then
    -- Other jobs could use its place under the limits while it was overdue.
    if limits.first_full(job.queue, record.links_of(job).limits) then return 'stale_lease' end
    index.leave_lane(job)
    record.unmark(job, 'retakeable')
  end
  local deadline = deadline_of(job, {lease_ms = lease_ms})
  job.deadline = deadline > 0 and math.max(job.deadline, deadline) or 0
  record.save(job)
  index.enter_running(job)
  return nil
end

-- Set the length of a running lease, counted from its start. Its holder does not know its deadline yet, so that it may
-- become earlier, too. A fixed lease stays, unless the job has its own rule for it: only such leases have whole
-- seconds.
function lease.set_length(job, lease_ms)
  if job.state ~= STATE.running then return nil end
  if lease.is_fixed(job) and not record.has(job, 'whole_seconds') then return nil end
  if record.has(job, 'retakeable') then return lease.renew(job, lease_ms) end
  job.deadline = deadline_from(job, job.started_at, lease_ms)
  record.save(job)
  index.enter_running(job)
  return nil
end

function lease.grant(job, token, terms)
  local waited_ms = math.max(0, clock.now_ms - job.ready_at)
  if job.started_at > 0 then
    local size = #started_before
    started_before[size + 1], started_before[size + 2] = job.id, job.started_at
  end
  index.leave(job)
  local worker = terms.next_worker and terms.next_worker() or terms.worker
  if terms.accept_ms > 0 then
    lease_header.set(job, STATE.dispatched, token, clock.now_ms + terms.accept_ms, worker, job.attempt + 1)
    if terms.dispatch_counts then record.mark(job, 'dispatch_counts') end
  else
    lease_header.set(job, STATE.running, token, deadline_of(job, terms), worker, job.attempt + 1)
  end
  job.announced = nil -- announce a new lease even if the job was running
  job_note.drop(job)
  index.enter(job)
  record.save(job)
  -- A run that continues after a suspension has spent its tokens before.
  if job.links ~= '' and not durable_state.take_woken(job) then limits.spend_tokens(job) end
  if fair_share.is_on(job.queue) then fair_share.charge(job.queue, job.lane) end
  return waited_ms
end

local function lease_all(queue, chosen, terms, taken)
  if #chosen == 0 then return end
  local last_token = redis.call('INCRBY', keys.token(), #chosen)
  local waited_ms = 0
  for i, job in ipairs(chosen) do
    local one_ms = lease.grant(job, last_token - #chosen + i, terms)
    waited_ms = waited_ms + one_ms
    counters.add_taken(queue, one_ms)
    taken[#taken + 1] = job
  end
  counters.add(queue, 'wait_ms', waited_ms)
end

-- Offer the rest of a full batch to the next waiter, if this taker could have taken it.
function lease.offer_the_rest(queue, filter)
  if redis.call('EXISTS', keys.waiters(queue)) == 0 then return end
  local id = selection.next_ids(queue, filter, 1, 0)[1]
  local job = id and record.load(id)
  if job then wakeups.wake(queue, job) end
end

local function choose(loaded, most)
  local chosen, dropped = {}, 0
  for _, job in ipairs(loaded) do
    if #chosen == most then break end
    if lease.may_start(job) then table.insert(chosen, job) else dropped = dropped + 1 end
  end
  return chosen, dropped
end

-- Add up to `most` jobs of a queue to `taken`. Returns the next due instant, and where a long scan resumes.
function lease.take_from(queue, filter, most, terms, from, taken)
  local following = expiry.settle_due(queue)
  local wanted = #taken + most
  local looked_at, resume, is_cut = most, nil, false
  for _ = 1, ROUNDS do
    local ids
    ids, resume, is_cut = selection.next_ids(queue, filter, looked_at, math.max(from, 0))
    if #ids == 0 then break end
    local chosen, dropped = choose(lease.load_whole(ids), wanted - #taken)
    lease_all(queue, chosen, terms, taken)
    batch.flush()
    if (dropped == 0 and not is_cut) or #taken == wanted then break end
    looked_at, resume = math.max(wanted - #taken, dropped > 0 and LOOKED_AT_BEHIND or 0), scan.FROM_THE_START
  end
  if #taken == wanted or is_cut then lease.offer_the_rest(queue, filter) end
  return math.min(following, blocked_lanes.rate_due[queue] or math.huge), resume
end

return lease
