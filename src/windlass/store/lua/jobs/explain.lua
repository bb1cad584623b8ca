-- Return the facts that decide the state of a job, read in one step. The caller turns them into sentences.
-- arguments: id, most (ids per list), most_workers (to read)
-- returns:   {now, record without payload beyond 1 KiB, last unsuccessful attempt or '', {fact, ...}}; a fact is one of
--            {'pause', what ('' the queue, 'l' + lane, 'n' + name), since (6 bytes) + reason},
--            {'limit', limit key, definition, running, next token at (0: none), {holder's id, ...}, own cap (0: none)},
--            {'place', jobs ahead, 1 when the queue is fair, lanes, blocked lanes, weight of its lane},
--            {'takers', waiting, of those that want it, leased jobs of the queue, {filter that does not match, ...}},
--            {'workers', all, {{worker, silent at, heartbeat interval in ms, description, jobs held, index of its names
--            (0: none)}, ...}, {names, ...}},
--            {'strangers', {push worker that does not know its name, ...}},
--            {'holder', lease_ms of the queue, 1 when the lease is fixed, its worker as above or nothing},
--            {'parent', id, state (0: it is gone)},
--            {'members', not ended, {{id, state (0: gone)}, ...}, deleted before their end, {id, ...}},
--            {'step', kind of a pending step on its dependencies (dependencies.lua)},
--            {'suspended', since when}, {'wait', name, step (durable/state.lua), children that have not ended},
--            {'kept', instant of its removal (0: not known), 1 when other jobs need its outcome}
-- refusals:  unknown_job, already_ended
-- flags: no-writes
local STATE = require('constants').STATE
local clock = require 'clock'
local dependencies = require 'dependencies.dependencies'
local waits = require 'durable.waits'
local ending = require 'jobs.ending'
local queue_position = require 'jobs.queue_position'
local record = require 'jobs.record'
local keys = require 'keys'
local lease = require 'leases.lease'
local configuration = require 'queues.configuration'
local fair_share = require 'queues.fair_share'
local lanes = require 'queues.lanes'
local candidates = require 'workers.candidates'

local function add(facts, ...) facts[#facts + 1] = {...} end

local function add_pauses(facts, job)
  for _, pause in ipairs(queue_position.pauses_on(job)) do add(facts, 'pause', unpack(pause)) end
end

local function add_takers(facts, job, most, most_workers)
  add(facts, 'takers', unpack(candidates.waiting_takers(job, most)))
  add(facts, 'workers', redis.call('ZCARD', keys.workers()), candidates.registered_workers(most_workers))
  add(facts, 'strangers', candidates.workers_without_name(job.name, most_workers))
end

local function add_position(facts, job, most)
  local queue = job.queue
  for _, limit in ipairs(queue_position.full_limits(queue, lanes.of(job), most)) do
    add(facts, 'limit', unpack(limit))
  end
  add(facts, 'place', queue_position.jobs_ahead(job), fair_share.is_on(queue) and 1 or 0,
    queue_position.count_lanes(queue), redis.call('HLEN', keys.blocked_by(queue)),
    tonumber(redis.call('HGET', keys.weights(queue), job.lane) or 1))
end

local function add_steps(facts, id, ...)
  for _, kind in ipairs({...}) do
    if dependencies.is_unsettled(id, kind) then add(facts, 'step', kind) end
  end
end

local function add_parent(facts, job)
  if not record.has(job, 'held') then return end
  local parent_id = record.links_of(job).parent
  local parent = record.load(parent_id)
  add(facts, 'parent', parent_id, parent and parent.state or 0)
  add_steps(facts, parent_id, 'r.', 'el', 'ek', 'ea', 'eo')
end

local function add_members(facts, job, most)
  local key, deleted, first = keys.members(job.id), dependencies.DELETED, {}
  local pending = redis.call('ZRANGEBYSCORE', key, STATE.scheduled, '(' .. STATE.finished, 'LIMIT', 0, most)
  for i, id in ipairs(pending) do
    local member = record.load(id)
    first[i] = {id, member and member.state or 0}
  end
  add(facts, 'members', dependencies.count_pending(job.id), first,
    dependencies.count_members(job.id, deleted, deleted),
    redis.call('ZRANGEBYSCORE', key, deleted, deleted, 'LIMIT', 0, most))
  add_steps(facts, job.id, 'r.', 'f0', 'f1', 'w.')
end

local function add_holder(facts, job)
  local worker = job.worker ~= record.NO_ID and candidates.describe_worker(job.worker) or {}
  add(facts, 'holder', configuration.of(job.queue).lease_ms, lease.is_fixed(job) and 1 or 0, worker)
end

local function add_end(facts, job)
  local removed_at = tonumber(redis.call('ZSCORE', keys.retention(), job.id) or 0)
  add(facts, 'kept', removed_at, dependencies.is_needed(job) and 1 or 0)
  add_steps(facts, job.id, 'el', 'ek', 'ea')
end

local function facts_of(job, most, most_workers)
  local facts = {}
  if record.is_leased(job) then add_holder(facts, job) end
  if job.state == STATE.waiting then
    add_parent(facts, job)
    add_members(facts, job, most)
  elseif record.is_ended(job) then
    add_end(facts, job)
  elseif job.state == STATE.suspended then
    for _, fact in ipairs(waits.describe(job)) do facts[#facts + 1] = fact end
  elseif job.state <= STATE.queued or record.has(job, 'retakeable') then
    add_pauses(facts, job)
    add_takers(facts, job, most, most_workers)
    if job.state ~= STATE.scheduled then add_position(facts, job, most) end
  end
  return facts
end

return function(_, id, most, most_workers)
  local job = record.load(id)
  if not job then return ending.missing(id) end
  local facts = facts_of(job, tonumber(most), tonumber(most_workers))
  local attempt = record.has(job, 'has_attempts') and redis.call('LINDEX', keys.attempts(id), -1)
  return {clock.now_ms, job.raw, attempt or '', facts}
end
