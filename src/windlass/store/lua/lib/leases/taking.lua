-- uses: keys, clock, config, filter, wakeups, ending, leasing, propagation, wake_takers
-- Take from several queues, shared by take and finish_and_take.
local function register(arguments)
  if arguments.bell == '' then return end
  for i = arguments.queues_at, #ARGV do
    wait_for_ring(ARGV[i], arguments.bell, arguments.filter, arguments.registered_ms)
  end
  if arguments.by_hand then offer_hand(arguments.bell, ARGV[4], arguments.registered_ms) end
end

-- Return the refusal if a queue does not support the filter, else nil. Called before anything changes.
local function refused_filter(arguments)
  local filter = parse_filter(arguments.filter)
  if filter.any then return nil end
  for i = arguments.queues_at, #ARGV do
    local config = config_of(ARGV[i])
    if filter.kind ~= '' and config.name_lanes ~= 1 then return 'names_need_lanes' end
    if filter.priority and config.aging_ms > 0 then return 'no_exact_priority' end
  end
  return nil
end

-- While a slot is migrated key by key, a script on either node sees only some of the keys (stop.lua).
local function is_stopped()
  local mark = redis.call('HGET', KEYS[1], 'stopped')
  return mark and tonumber(string.match(mark, '^%d+')) > now_ms
end

-- Take from one queue until a job is found, in bounded rounds. Returns an instant at which more may be due.
local ROUNDS_OF_A_WALK = 8
local A_LONG_WALK_MS = 100
local function walk(queue, filter, wanted, terms, taken)
  local before, from, following = #taken, 0, math.huge
  for _ = 1, ROUNDS_OF_A_WALK do
    local at, resume = take_from(queue, filter, wanted, terms, from, taken)
    following = math.min(following, at)
    if #taken > before or not resume then return following end
    from = resume
  end
  return math.min(following, now_ms + A_LONG_WALK_MS)
end

local function take_in_order(arguments, terms, filter, taken)
  local following, resume = math.huge, nil
  for i = arguments.queues_at, #ARGV do
    if #taken >= arguments.most then break end
    local at, further = take_from(ARGV[i], filter, arguments.most - #taken, terms, arguments.from, taken)
    following = math.min(following, at)
    if further and (not resume or further < resume) then resume = further end
  end
  return following, resume
end

local WORK_PAUSE_MS = 10

local function take_all(arguments, terms)
  if is_stopped() then return 'partition_stopped' end
  local refused = refused_filter(arguments)
  if refused then return refused end
  local filter, taken = parse_filter(arguments.filter), {}
  -- Register before taking, so that the rest can be offered to the others.
  if arguments.others_wait then register(arguments) end
  local following, resume = take_in_order(arguments, terms, filter, taken)
  if #taken == 0 and not resume then
    -- An idle taker helps with pending steps on dependencies: they may release a job for it.
    local was_some, is_left = work_on()
    if was_some then following, resume = take_in_order(arguments, terms, filter, taken) end
    if is_left then following = math.min(following, now_ms + WORK_PAUSE_MS) end
  end
  if #taken == 0 and not resume then register(arguments) end
  ring_all()
  trim_histories()
  local answers = {}
  for i, r in ipairs(taken) do answers[i] = r.id .. r.raw end
  return {now_ms, following < math.huge and following or 0, resume or 0, answers, started_before_now(), used_up_now()}
end
