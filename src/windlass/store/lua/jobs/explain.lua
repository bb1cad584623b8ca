-- Return the facts that decide the state of a job, read in one step. The caller turns them into sentences.
-- arguments: ARGV[1] clock offset, [2] id, [3] most ids per list, [4] most workers to read
-- returns:   {now, record without payload beyond 1 KiB, last unsuccessful attempt or '', {fact, ...}}; a fact is one of
--            {'pause', what ('' the queue, 'l' + lane, 'n' + name), since (6 bytes) + reason},
--            {'limit', limit key, definition, running, next token at (0: none), {holder's id, ...}, own cap (0: none)},
--            {'place', jobs ahead, 1 when the queue is fair, lanes, blocked lanes, weight of its lane},
--            {'takers', waiting, of those that want it, leased jobs of the queue, {filter that does not match, ...}},
--            {'workers', all, {{worker, silent at, heartbeat interval in ms, description, jobs held}, ...}},
--            {'strangers', {push worker that does not know its name, ...}},
--            {'holder', lease_ms of the queue, its worker as above or nothing},
--            {'parent', id, state (0: it is gone)},
--            {'members', not ended, {{id, state (0: gone)}, ...}, deleted before their end, {id, ...}},
--            {'step', kind of a pending step on its dependencies (dependencies.lua)},
--            {'kept', instant of its removal (0: not known), 1 when other jobs need its outcome}
-- refusals:  unknown_job, already_ended
-- flags: no-writes
local STATE = require('constants').STATE
local clock = require 'clock'
local dependencies = require 'dependencies.dependencies'
local ending = require 'jobs.ending'
local queue_position = require 'jobs.queue_position'
local record = require 'jobs.record'
local keys = require 'keys'
local configuration = require 'queues.configuration'
local fair_share = require 'queues.fair_share'
local lanes = require 'queues.lanes'
local candidates = require 'workers.candidates'

return function(arguments)
  local id, most, most_workers = arguments[2], tonumber(arguments[3]), tonumber(arguments[4])
  local facts = {}

  local function tell(...) facts[#facts + 1] = {...} end

  local function tell_pauses(job)
    for _, pause in ipairs(queue_position.pauses_on(job)) do tell('pause', unpack(pause)) end
  end

  local function tell_audience(job)
    tell('takers', unpack(candidates.waiting_takers(job, most)))
    tell('workers', redis.call('ZCARD', keys.workers()), candidates.registered_workers(most_workers))
    tell('strangers', candidates.workers_without_name(job, most_workers))
  end

  local function tell_place(job)
    for _, limit in ipairs(queue_position.full_limits(job.queue, lanes.of(job), most)) do tell('limit', unpack(limit)) end
    tell('place', queue_position.jobs_ahead(job), fair_share.is_on(job.queue) and 1 or 0, queue_position.count_lanes(job.queue),
      redis.call('HLEN', keys.blocked_by(job.queue)),
      tonumber(redis.call('HGET', keys.weights(job.queue), job.lane) or 1))
  end

  local function tell_steps(owner_id, ...)
    for _, kind in ipairs({...}) do
      if dependencies.is_unsettled(owner_id, kind) then tell('step', kind) end
    end
  end

  local function tell_parent(job)
    if not record.has(job, 'held') then return end
    local parent = record.load(record.links_of(job).parent)
    tell('parent', record.links_of(job).parent, parent and parent.state or 0)
    tell_steps(record.links_of(job).parent, 'r.', 'el', 'ek', 'ea', 'eo')
  end

  local function tell_members(job)
    local key, first = keys.members(job.id), {}
    for _, member_id in ipairs(redis.call('ZRANGEBYSCORE', key, STATE.scheduled, '(' .. STATE.finished, 'LIMIT', 0, most)) do
      local member = record.load(member_id)
      first[#first + 1] = {member_id, member and member.state or 0}
    end
    tell('members', dependencies.count_pending(job.id), first, dependencies.count_members(job.id, dependencies.DELETED, dependencies.DELETED),
      redis.call('ZRANGEBYSCORE', key, dependencies.DELETED, dependencies.DELETED, 'LIMIT', 0, most))
    tell_steps(job.id, 'r.', 'f0', 'f1', 'w.')
  end

  local function tell_holder(job)
    tell('holder', configuration.of(job.queue).lease_ms, job.worker ~= record.NOBODY and candidates.describe_worker(job.worker) or {})
  end

  local function tell_end(job)
    tell('kept', tonumber(redis.call('ZSCORE', keys.retention(), job.id) or 0), dependencies.is_needed(job) and 1 or 0)
    tell_steps(job.id, 'el', 'ek', 'ea')
  end

  local job = record.load(id)
  if not job then return ending.missing(id) end
  if record.is_leased(job) then tell_holder(job) end
  if job.state == STATE.waiting then
    tell_parent(job)
    tell_members(job)
  elseif record.is_ended(job) then
    tell_end(job)
  elseif job.state <= STATE.queued or record.has(job, 'retakeable') then
    tell_pauses(job)
    tell_audience(job)
    if job.state ~= STATE.scheduled then tell_place(job) end
  end
  local attempt = record.has(job, 'has_attempts') and redis.call('LINDEX', keys.attempts(id), -1)
  return {clock.now_ms, job.raw, attempt or '', facts}
end
