-- Take from several queues, shared by take and finish_and_take.
local clock = require 'clock'
local propagation = require 'dependencies.propagation'
local ending = require 'jobs.ending'
local keys = require 'keys'
local lease = require 'leases.lease'
local configuration = require 'queues.configuration'
local script = require 'script'
local taker_filter = require 'workers.taker_filter'
local wake_takers = require 'workers.wake_takers'
local wakeups = require 'workers.wakeups'

local take = {}

local function register(request)
  if request.wakeup_list == '' then return end
  for i = request.queues_at, #script.arguments do
    wakeups.register(script.arguments[i], request.wakeup_list, request.filter, request.registered_ms)
  end
  if request.direct_handoff then wakeups.offer_handoff(request.wakeup_list, script.arguments[4], request.registered_ms) end
end

-- Return the refusal if a queue does not support the filter, else nil. Called before anything changes.
function take.refused_filter(request)
  local filter = taker_filter.parse(request.filter)
  if filter.any then return nil end
  for i = request.queues_at, #script.arguments do
    local config = configuration.of(script.arguments[i])
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
local ROUNDS_OF_A_WALK = 8
local A_LONG_WALK_MS = 100
function take.take_first(queue, filter, wanted, terms, taken)
  local before, from, following = #taken, 0, math.huge
  for _ = 1, ROUNDS_OF_A_WALK do
    local at, resume = lease.take_from(queue, filter, wanted, terms, from, taken)
    following = math.min(following, at)
    if #taken > before or not resume then return following end
    from = resume
  end
  return math.min(following, clock.now_ms + A_LONG_WALK_MS)
end

local function take_in_order(request, terms, filter, taken)
  local following, resume = math.huge, nil
  for i = request.queues_at, #script.arguments do
    if #taken >= request.most then break end
    local at, further = lease.take_from(script.arguments[i], filter, request.most - #taken, terms, request.from, taken)
    following = math.min(following, at)
    if further and (not resume or further < resume) then resume = further end
  end
  return following, resume
end

local WORK_PAUSE_MS = 10

function take.take(request, terms)
  if take.is_stopped() then return 'partition_stopped' end
  local refused = take.refused_filter(request)
  if refused then return refused end
  local filter, taken = taker_filter.parse(request.filter), {}
  -- Register before taking, so that the rest can be offered to the others.
  if request.others_wait then register(request) end
  local following, resume = take_in_order(request, terms, filter, taken)
  if #taken == 0 and not resume then
    -- An idle taker helps with pending steps on dependencies: they may release a job for it.
    local was_some, is_left = propagation.continue_steps()
    if was_some then following, resume = take_in_order(request, terms, filter, taken) end
    if is_left then following = math.min(following, clock.now_ms + WORK_PAUSE_MS) end
  end
  if #taken == 0 and not resume then register(request) end
  wake_takers.wake_all()
  ending.trim_histories()
  local answers = {}
  for i, job in ipairs(taken) do answers[i] = job.id .. job.raw end
  return {clock.now_ms, following < math.huge and following or 0, resume or 0, answers, lease.list_started_before(), lease.count_used_up()}
end

return take
