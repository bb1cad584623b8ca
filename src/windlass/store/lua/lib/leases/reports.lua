-- Reports of lease holders. Token 0 stands for the current holder (dialects without tokens).
local STATE = require('constants').STATE
local batch = require 'batch'
local clock = require 'clock'
local dependencies = require 'dependencies.dependencies'
local yield_to_children = require 'dependencies.yield_to_children'
local durable_state = require 'durable.state'
local attempts = require 'jobs.attempts'
local counters = require 'jobs.counters'
local end_header = require 'jobs.end_header'
local ending = require 'jobs.ending'
local index = require 'jobs.index'
local job_note = require 'jobs.job_note'
local record = require 'jobs.record'
local repeat_rule = require 'jobs.repeat_rule'
local requeue = require 'jobs.requeue'
local keys = require 'keys'

local reports = {}

-- Return the record if the caller holds its lease, else nil and the refusal.
function reports.find_held(id, token)
  local job = record.load(id)
  if not job then return nil, ending.missing(id) end
  if record.is_leased(job) and (token == 0 or token == job.token) then return job end
  if record.is_ended(job) and token > 0 and token == job.token then return nil, 'already_ended' end
  if token > 0 then return nil, 'stale_lease' end
  return nil, 'wrong_state'
end

-- End the lease and put the job back, to its old position or to another time, which decides between queued and
-- scheduled.
function reports.put_back(job, ready_at)
  index.leave(job) -- with the old time, under which an overdue retake job is in its lane
  job.ready_at = ready_at or job.ready_at
  job.token, job.deadline, job.worker = 0, 0, record.NO_ID
  job.state = index.state_by_time(job)
  index.enter(job)
  record.save(job)
end

-- Give a leased job back without a spent attempt. A requested cancel ends it instead.
function reports.release(job)
  if record.has(job, 'cancel_requested') then
    counters.add(job.queue, 'cancelled', 1)
    ending.end_job(job, STATE.cancelled)
    return 'cancelled'
  end
  job.attempt = math.max(0, job.attempt - 1)
  reports.put_back(job)
  return job.state == STATE.queued and 'queued' or 'scheduled'
end

-- Begin the next run of a repeating job: attempts from 0, the same id and payload. Its expiry was for the first run.
local function run_again(job, at)
  index.leave(job)
  job.ready_at, job.attempt, job.progress = at, 0, 0
  job_note.drop(job)
  durable_state.clear(job)
  job.token, job.deadline, job.worker = 0, 0, record.NO_ID
  job.state = index.state_by_time(job)
  if record.has(job, 'has_members') then yield_to_children.begin_round(job) end
  requeue.drop_expiry(job)
  local _, rule = repeat_rule.of(job)
  repeat_rule.set(job, at, rule)
  index.enter(job)
  record.rewrite(job, record.payload_of(job))
end

local function go_on(job, then_at, ran_ms)
  if then_at ~= 'never' then
    counters.add_finished(job.queue, ran_ms)
    run_again(job, tonumber(then_at))
  else
    attempts.log(job, 'repeat_out_of_range', '')
    counters.add(job.queue, 'failed', 1)
    ending.end_job(job, STATE.failed)
  end
  return 'ok'
end

local function is_to_repeat(job, then_at)
  return record.has(job, 'repeats') and then_at ~= 'end' and not record.has(job, 'cancel_requested')
end

-- Return what the caller needs to compute the next run of a finished repeating job; nil: nothing.
function reports.ask_next_run(job, then_at, revision)
  if not is_to_repeat(job, then_at) or (then_at ~= '' and revision == job.revision) then return nil end
  local planned_at, rule = repeat_rule.of(job)
  return {rule, planned_at, job.started_at, clock.now_ms, job.revision}
end

-- A finish as its caller packs it: id, token (0: the current holder's), revision from which the next run was computed,
-- that run, and the result with its codec ('': none).
local FINISH = '>c16I6I4Bc0'
function reports.read_finish(item)
  local id, token, revision, then_at, at = struct.unpack(FINISH, item)
  return id, token, string.sub(item, at), then_at, revision
end

-- `then_at`: '' if the next run was not computed yet; 'end': there is none; 'never': the rule has no further instant;
-- else the instant of the next run, computed from the record of this revision. If the next run must be computed first,
-- nothing changes.
function reports.finish(id, token, result, then_at, revision)
  local job, refused = reports.find_held(id, token)
  if not job then return refused end
  local instead = record.has(job, 'has_members') and yield_to_children.try(job)
  local asked = not instead and reports.ask_next_run(job, then_at, revision)
  if asked then return asked end
  local ran_ms = math.max(0, clock.now_ms - job.started_at)
  counters.add(job.queue, 'run_ms', ran_ms)
  if instead then return instead end
  if is_to_repeat(job, then_at) then return go_on(job, then_at, ran_ms) end
  counters.add_finished(job.queue, ran_ms)
  if result ~= '' and (record.policy_of(job).result_ttl_ms > 0 or dependencies.is_needed(job)) then
    record.mark(job, 'has_outcome')
    batch.set(keys.result(job.id), result)
  end
  end_header.complete(job)
  ending.end_job(job, STATE.finished, {result = result})
  return 'ok'
end

-- `then_what`: 'retry' (at now + delay_ms), 'final', or 'cancelled'.
function reports.fail(id, token, then_what, delay_ms, reason, content)
  local job, refused = reports.find_held(id, token)
  if not job then return refused end
  attempts.log(job, reason, content)
  if then_what == 'cancelled' or (then_what == 'retry' and record.has(job, 'cancel_requested')) then
    counters.add(job.queue, 'cancelled', 1)
    ending.end_job(job, STATE.cancelled)
    return 'cancelled'
  end
  if then_what == 'final' then
    counters.add(job.queue, 'failed', 1)
    ending.end_job(job, STATE.failed)
    return 'failed'
  end
  counters.add(job.queue, 'retried', 1)
  reports.put_back(job, clock.now_ms + delay_ms)
  return 'retried'
end

-- Leases that are unknown to their holder: a call granted them, and its answer was lost.
local SETTLED_MS = 2000 -- the answer with a younger lease may still be in transit
local UNCLAIMED_MOST = 100 -- per holder and call; the next call finds the rest
local NOTED_BYTES = 22 -- an id, and the instant of the first heartbeat that missed it

-- Return {id, token, ...} of running leases of the holder whose ids are not in `known` (16 bytes each). Dispatched jobs
-- are left out, because they return by themselves unless they are accepted. So are expired leases.
function reports.unclaimed_leases(holder, known)
  local most = #known / 16 + UNCLAIMED_MOST
  local ids = redis.call('ZRANGEBYSCORE', keys.worker_jobs(holder), '-inf', clock.now_ms - SETTLED_MS, 'LIMIT', 0, most)
  local found, is_known = {}, {}
  if #ids == 0 then return found end
  for at = 1, #known, 16 do is_known[string.sub(known, at, at + 15)] = true end
  for _, id in ipairs(ids) do
    if #found == 2 * UNCLAIMED_MOST then break end
    local job = not is_known[id] and record.load(id)
    if job and job.state == STATE.running and job.worker == holder and not record.has(job, 'retakeable') then
      found[#found + 1] = id
      found[#found + 1] = job.token
    end
  end
  return found
end

-- Return {id = instant as stored, ...}.
function reports.read_noted(noted)
  local since = {}
  for at = 1, #(noted or ''), NOTED_BYTES do
    since[string.sub(noted, at, at + 15)] = string.sub(noted, at + 16, at + NOTED_BYTES - 1)
  end
  return since
end

-- Store with a worker the leases that its heartbeats miss, for the doctor. Writes nothing while none is missed.
function reports.note_unclaimed(worker, noted, found)
  local key, since, parts = keys.worker(worker), reports.read_noted(noted), {}
  if #found == 0 then
    if noted then redis.call('HDEL', key, 'unclaimed') end
    return
  end
  for i = 1, #found, 2 do parts[#parts + 1] = found[i] .. (since[found[i]] or struct.pack('>I6', clock.now_ms)) end
  redis.call('HSET', key, 'unclaimed', table.concat(parts))
end

return reports
