-- Take from several queues, shared by take and finish_and_take.
local clock = require 'clock'
local propagation = require 'dependencies.propagation'
local ending = require 'jobs.ending'
local keys = require 'keys'
local lease = require 'leases.lease'
local configuration = require 'queues.configuration'
local taker_filter = require 'workers.taker_filter'
local wake_takers = require 'workers.wake_takers'
local wakeups = require 'workers.wakeups'

local take = {}

-- Return the request of a take: its first nine arguments, and the queues from `queues_at` on. It has the terms of the
-- leases too (lease.lua).
function take.read_request(arguments, queues_at, filter, most, worker, lease_ms, accept_ms, wakeup_list, registered_ms,
    waiting, resume)
  local queues = {}
  for i = queues_at, #arguments do queues[#queues + 1] = arguments[i] end
  return {
    filter = filter, most = tonumber(most), worker = worker, lease_ms = tonumber(lease_ms),
    accept_ms = tonumber(accept_ms), wakeup_list = wakeup_list, registered_ms = tonumber(registered_ms),
    others_wait = waiting == '1', accepts_handoff = waiting == '2', resume = tonumber(resume), queues = queues,
  }
end

local function register(request)
  wakeups.register_taker(request.queues, 1, request.wakeup_list, request.filter, request.registered_ms,
    request.accepts_handoff and request.worker)
end

-- Return the refusal if a queue does not support the filter, else nil. Called before anything changes.
function take.refused_filter(request)
  local filter = taker_filter.parse(request.filter)
  if filter.any then return nil end
  for _, queue in ipairs(request.queues) do
    local config = configuration.of(queue)
    if filter.kind ~= '' and config.name_lanes ~= 1 then return 'names_need_lanes' end
    if filter.priority and config.aging_ms > 0 then return 'no_exact_priority' end
  end
  return nil
end

-- While a slot is migrated key by key, a script on either node sees only some of the keys (stop.lua).
function take.is_stopped()
  local mark = redis.call('HGET', keys.root, 'stopped')
  return mark and tonumber(string.match(mark, '^%d+')) > clock.now_ms
end

-- Take from one queue until a job is found, in bounded rounds. Returns an instant at which more may be due.
local SCANS = 8
local AFTER_A_LONG_SCAN_MS = 100
function take.take_first(queue, filter, wanted, terms, taken)
  local before, from, following = #taken, 0, math.huge
  for _ = 1, SCANS do
    local at, resume = lease.take_from(queue, filter, wanted, terms, from, taken)
    following = math.min(following, at)
    if #taken > before or not resume then return following end
    from = resume
  end
  return math.min(following, clock.now_ms + AFTER_A_LONG_SCAN_MS)
end

local function take_in_order(request, filter, taken)
  local following, resume = math.huge, nil
  for _, queue in ipairs(request.queues) do
    if #taken >= request.most then break end
    local at, further = lease.take_from(queue, filter, request.most - #taken, request, request.resume, taken)
    following = math.min(following, at)
    if further and (not resume or further < resume) then resume = further end
  end
  return following, resume
end

local STEPS_PAUSE_MS = 10

function take.take(request)
  if take.is_stopped() then return 'partition_stopped' end
  local refused = take.refused_filter(request)
  if refused then return refused end
  local filter, taken = taker_filter.parse(request.filter), {}
  -- Register before taking, so that the rest can be offered to the others.
  if request.others_wait then register(request) end
  local following, resume = take_in_order(request, filter, taken)
  if #taken == 0 and not resume then
    -- An idle taker helps with pending steps on dependencies: they may release a job for it.
    local had_steps, is_left = propagation.continue_steps()
    if had_steps then following, resume = take_in_order(request, filter, taken) end
    if is_left then following = math.min(following, clock.now_ms + STEPS_PAUSE_MS) end
  end
  if #taken == 0 and not resume then register(request) end
  wake_takers.wake_all()
  ending.trim_histories()
  local answers = {}
  for i, job in ipairs(taken) do answers[i] = job.id .. job.raw end
  following = following < math.huge and following or 0
  return {clock.now_ms, following, resume or 0, answers, lease.list_started_before(), lease.count_used_up()}
end

return take
