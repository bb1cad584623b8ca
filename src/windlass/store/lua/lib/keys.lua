-- Keys of one partition: every key, its type and its content. Only this file builds keys; store/keys.py names those
-- that Python reads. All keys of a partition begin with its root, e.g. `wl:{0}`, and so share its hash tag. A limit key
-- is a limit's number, number:key or number=key; where lanes are blocked, also a pause (limits.lua).
local script = require 'script'

local keys = {}

-- `keys.root` is a hash: `layout` and `needs_version` (namespace_format.lua), partition count (in partition 0), test
-- mark, `stopped` (stop.lua), `served_by` (fencing.py), `signing_key` (in partition 0, signing_key.lua).
local P
script.on_begin(function(root)
  keys.root = root
  P = root .. ':'
end)

-- Jobs
function keys.job(id) return P .. 'j:' .. id end -- string: its record (record.lua)
-- list: the last 20 unsuccessful attempts, with errors (attempts.lua)
function keys.attempts(id) return P .. 'a:' .. id end
function keys.result(id) return P .. 'o:' .. id end -- string: kept result, with its codec
function keys.log(id) return P .. 'l:' .. id end -- list: last log lines of its holders (job_log.lua)
-- hash: its steps, unread signals and counters (durable/state.lua)
function keys.durable(id) return P .. 'y:' .. id end
function keys.stream(id) return P .. 'x:' .. id end -- stream: values it has written (durable/stream.lua)
function keys.end_waiters(id) return P .. 'e:' .. id end -- set: wakeup lists to notify when the job ends
-- zset: children and awaited jobs; score their state (dependencies.lua)
function keys.members(id) return P .. 'c:' .. id end
-- zset: jobs that wait for its end; score the last notified state
function keys.dependents(id) return P .. 'd:' .. id end
function keys.tag(tag) return P .. 't:' .. tag end -- zset: jobs with a tag; score creation
function keys.unique(queue, key) return P .. 'u:' .. queue .. '\0' .. key end -- zset: holders; score sequence
-- string: end of the period + id of the job that won it; expires
function keys.throttle(queue, key) return P .. 'throttle:' .. queue .. '\0' .. key end
function keys.steps() return P .. 'work' end -- zset: pending steps on dependencies; kind + id, score when
function keys.restoring() return P .. 'restoring' end -- zset: imported jobs with links; 1 to be linked, 2 to be settled
function keys.retention() return P .. 'retention' end -- zset: id -> instant of removal
function keys.expiry() return P .. 'expiry' end -- zset: id -> instant by which it must have started
function keys.ended_ids(bucket) return P .. 'ended:' .. bucket end -- set: last 8 bytes of ids that ended; expires
-- zset: id of a removed job -> when it is forgotten (tombstones.lua)
function keys.tombstones() return P .. 'tombstones' end
function keys.tombstone_queues() return P .. 'tombstone_queues' end -- hash: the same ids -> queue
-- hash: n + job id -> its place in the graph, s + job id -> how it ended, and fields of the flow (flow_record.lua)
function keys.flow(id) return P .. 'flow:' .. id end
function keys.flows() return P .. 'flows' end -- zset: flow -> creation
-- zset: flow without records of jobs -> instant of its removal (flow_retention.lua)
function keys.flow_retention() return P .. 'flow_retention' end
function keys.flow_steps() return P .. 'flow_steps' end -- string: number of steps of these flows
function keys.sequence() return P .. 'seq' end -- string: enqueue sequence
function keys.token() return P .. 'token' end -- string: lease token

-- Queues
function keys.queues() return P .. 'queues' end -- set: queues that hold something or are configured
function keys.queue(queue) return P .. 'q:' .. queue end -- hash: configuration, counts (`bytes` …), marks
function keys.ready(queue) return P .. 'ready:' .. queue end -- zset: default lane; score priority, member (lanes.lua)
function keys.lane(queue, lane) -- zset: a lane, same form
  if lane == '' then return P .. 'ready:' .. queue end
  return P .. 'lane:' .. queue .. '\0' .. lane
end
function keys.laned(queue) return P .. 'laned:' .. queue end -- zset: jobs of all other lanes, for counts and pages
function keys.heads(queue) return P .. 'heads:' .. queue end -- zset: head of each other lane; member as there + lane
-- zset: lexicographic index of other lanes; name \0 lane
function keys.lane_names(queue) return P .. 'names:' .. queue end
-- zset: lanes that a limit or a pause blocks, as in heads
function keys.blocked_lanes(queue, limit_key) return P .. 'parked:' .. queue .. '\0' .. limit_key end
function keys.blocked_by(queue) return P .. 'parked_at:' .. queue end -- hash: lane -> limit key that blocks it
function keys.room(queue) return P .. 'room:' .. queue end -- zset: limit keys with room that still have blocked lanes
function keys.rates(queue) return P .. 'rates:' .. queue end -- zset: rates that block lanes -> their next token
function keys.pauses(queue) return P .. 'pauses:' .. queue end -- hash: 'l' + lane or 'n' + name -> since + reason
function keys.weights(queue) return P .. 'weights:' .. queue end -- hash: lane -> weight, if it is not 1
-- zset: lane -> virtual time ahead of the queue's (fair_share.lua)
function keys.turns(queue) return P .. 'turns:' .. queue end
-- hash: lane -> virtual time at which its head was entered
function keys.entered(queue) return P .. 'entered:' .. queue end
function keys.scheduled(queue) return P .. 'scheduled:' .. queue end -- zset: score run_at
function keys.waiting(queue) return P .. 'waiting:' .. queue end -- zset: score creation
function keys.suspended(queue) return P .. 'suspended:' .. queue end -- zset: score instant at which it wakes, or +inf
-- zset: dispatched and running; score the recoverer's check
function keys.running(queue) return P .. 'running:' .. queue end
function keys.finished(queue) return P .. 'finished:' .. queue end -- zset: score end
function keys.history(queue) return P .. 'history:' .. queue end -- zset: score end; also failed: and cancelled:
-- zset: waiting takers; wakeup list \1 filter, score until
function keys.waiters(queue) return P .. 'waiters:' .. queue end
-- hash: <minute>:<what> (counters.lua)
function keys.counters(queue, hour) return P .. 'm:' .. queue .. '\0' .. hour end
function keys.idle(queue) return P .. 'idle:' .. queue end -- zset: worker -> until when it may be given a job; expires
-- Return the index of a queue by its name: 'ready', 'laned', 'scheduled', 'finished', 'failed', …; 't' for a tag.
function keys.of_queue(kind, queue) return P .. kind .. ':' .. queue end
keys.STATE_INDEX = {
  'scheduled', nil, 'waiting', 'running', 'running', 'finished', 'failed', 'cancelled', 'suspended',
}
-- zset: queue -> an instant not later than its next scheduled or suspended job ('due'), expired lease ('lease'), wakeup
-- check ('ring')
function keys.timer(kind) return P .. 'timers:' .. kind end

-- Limits
function keys.limits() return P .. 'limits' end -- hash: number -> limit
function keys.limit_names() return P .. 'limit_names' end -- hash: name -> number
function keys.limits_version() return P .. 'limits_version' end -- string: grows with every change, also of indexes
-- set: queues whose payloads are indexed (queue_index.lua)
function keys.indexed_queues() return P .. 'indexed_queues' end
function keys.limit_number() return P .. 'limit_number' end -- string: grows with every new limit
function keys.rematch() return P .. 'rematch' end -- string: version against which waiting jobs are being matched
-- zset: jobs that run under a limit; score start
function keys.holders(limit_key) return P .. 'holders:' .. limit_key end
-- string: when a rate's bucket is full; expires then
function keys.full_at(limit_key) return P .. 'full_at:' .. limit_key end
-- set: queues with lanes that a limit blocks
function keys.blocked_in(limit_key) return P .. 'parked_in:' .. limit_key end
function keys.limit_keys(number) return P .. 'held:' .. number end -- set: its limit keys with holders or blocked lanes
-- hash: limit key -> its own cap + callers' data (caps.lua)
function keys.caps(number) return P .. 'caps:' .. number end
function keys.capped_keys(number) return P .. 'keyed:' .. number end -- zset: limit keys with a cap or jobs; score 0
-- zset: its jobs that have not ended; score state
function keys.limited_jobs(limit_key) return P .. 'under:' .. limit_key end
-- zset: limit keys with a cap and without jobs -> removal of the cap
function keys.idle_caps() return P .. 'idle_caps' end

-- Numbers
function keys.number() return P .. 'number' end -- string: last number given to a job (numbers.lua)
-- string: last call of this name, its first number; expires
function keys.request_id(name) return P .. 'slip:' .. name end
function keys.numbers() return P .. 'numbers' end -- hash: id -> number, of jobs whose number was assigned later
function keys.numbered() return P .. 'numbered' end -- hash: number -> id, of the same jobs

-- Workers and wakeups
function keys.workers() return P .. 'workers' end -- zset: worker -> instant by which it must send a heartbeat
function keys.worker(worker) return P .. 'w:' .. worker end -- hash: description
function keys.worker_jobs(worker) return P .. 'wj:' .. worker end -- zset: jobs it holds; score start
function keys.push_workers() return P .. 'push_workers' end -- zset: score registration (push_workers.lua)
function keys.push_full() return P .. 'push_full' end -- set: push workers that had no free slot when a call looked
function keys.unknown_names(worker) return P .. 'wn:' .. worker end -- zset: names it does not know; score when reported
function keys.wakeup_list(process) return P .. 'bell:' .. process end -- list: wakeups of a process
-- string: worker that accepts a direct handoff; expires
function keys.handoff(process) return P .. 'hand:' .. process end

-- zset: queue \0 name of a task -> when workers last reported how it ran (task_figures.lua); expires
function keys.tasks() return P .. 'tasks' end
-- hash: minute -> packed counters of a task; expires
function keys.task_figures(queue, name, hour) return P .. 'tm:' .. queue .. '\0' .. name .. '\0' .. hour end

-- Schedules
-- zset: schedule -> next occurrence; +inf when it is paused or over
function keys.schedules() return P .. 'schedules' end
function keys.schedule_names() return P .. 'schedule_names' end -- zset: the same names, by name
-- hash: definition (opaque), revision, created_at, next_at (0: over), paused (reason), last_planned_at, last_fired_at,
-- last_job, fired, skipped, missed
function keys.schedule(name) return P .. 's:' .. name end
function keys.schedule_jobs(name) return P .. 'sj:' .. name end -- list: ids of its last 20 jobs, newest first

-- Callbacks
function keys.pending_callbacks() return P .. 'owed' end -- zset: callback -> instant at which it is due
function keys.given_up() return P .. 'given_up' end -- zset: callback -> instant at which it is removed
function keys.given_up_ids() return P .. 'given_up_ids' end -- zset: given-up callbacks, by id
function keys.destination(destination) return P .. 'od:' .. destination end -- zset: its pending callbacks, as in all
function keys.destinations() return P .. 'owed_to' end -- zset: destination -> instant of its first pending callback
function keys.callback(id) return P .. 'b:' .. id end -- hash: job as it ended, result, tries, destination
function keys.callback_number() return P .. 'debts' end -- string: numbers of callbacks and of their leases

-- Events, tokens, figures
function keys.followed() return P .. 'followed' end -- string: epoch (events.lua), while there are followers; expires
function keys.events() return P .. 'events' end -- stream: bounded; written only while `followed` exists; expires
function keys.tokens() return P .. 'tokens' end -- hash: name -> creation, expiry, definition (tokens.lua); partition 0
-- zset: ended by logout; score last cookie's end in s; expires
function keys.ended_sessions() return P .. 'ended_sessions' end
-- string: changes with tokens and ended sessions; partition 0
function keys.tokens_version() return P .. 'tokens_version' end
function keys.stats(component) return P .. 'stats:' .. component end -- hash: instance -> until when + figures; expires
function keys.filters() return P .. 'filters' end -- hash: name -> page and fields (opaque); partition 0
function keys.audit() return P .. 'audit' end -- stream: audit log, bounded (audit.lua); partition 0

-- Alerts (partition 0)
function keys.alerts() return P .. 'alerts' end -- hash: name -> rule (opaque)
function keys.alert_states() return P .. 'alert_states' end -- hash: name -> state (opaque)
-- list: past incidents (opaque), newest first; bounded
function keys.alert_history() return P .. 'alert_history' end
function keys.alerts_due() return P .. 'alerts_due' end -- string: when the rules are evaluated next

-- Keys of a queue for the fast path, kept from call to call: joining them costs as much as finding them. They depend on
-- the root and on the queue only. Counters.lua keeps the fields of the current minute there.
local QUEUES_KEPT = 100
local kept, kept_number = {}, 0

local function join_keys(queue)
  return {
    queue = keys.queue(queue), ready = keys.ready(queue), running = keys.running(queue), heads = keys.heads(queue),
    room = keys.room(queue), waiters = keys.waiters(queue), laned = keys.laned(queue),
    blocked_by = keys.blocked_by(queue),
    lane_names = keys.lane_names(queue), followed = keys.followed(), push_full = keys.push_full(), job = keys.job(''),
    limits_version = keys.limits_version(), sequence = keys.sequence(), token = keys.token(), number = keys.number(),
    lease_timer = keys.timer('lease'), due_timer = keys.timer('due'), minute_ends_at = 0,
  }
end

function keys.kept_of(queue)
  local of_root = kept[P]
  local found = of_root and of_root[queue]
  if found then return found end
  if not of_root or kept_number >= QUEUES_KEPT then
    if kept_number >= QUEUES_KEPT then kept, kept_number = {}, 0 end
    of_root = {}
    kept[P] = of_root
  end
  found, kept_number = join_keys(queue), kept_number + 1
  of_root[queue] = found
  return found
end

-- Return a key by its name as stored. For the doctor and for pages over several kinds of keys.
function keys.named(name) return P .. name end
function keys.prefix() return P end

return keys
