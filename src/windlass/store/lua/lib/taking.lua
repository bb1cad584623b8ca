-- uses: keys, clock, config, filter, ring, ending, leasing
-- take over several queues: shared by take and exchange.
local function register(arguments)
  if arguments.bell == '' then return end
  for i = arguments.queues_at, #ARGV do
    redis.call('ZADD', queue_key('waiters', ARGV[i]), now_ms + arguments.registered_ms,
      arguments.bell .. '\1' .. arguments.filter)
  end
end

local function take_all(arguments, terms)
  local filter = parse_filter(arguments.filter)
  local taken, following, resume = {}, math.huge, nil
  for i = arguments.queues_at, #ARGV do
    if filter.kind ~= '' and config_of(ARGV[i]).name_lanes ~= 1 then return 'names_need_lanes' end
  end
  -- Before taking, so that what this call leaves behind can be offered to them.
  if arguments.others_wait then register(arguments) end
  for i = arguments.queues_at, #ARGV do
    if #taken >= arguments.most then break end
    local at, further = take_from(ARGV[i], filter, arguments.most - #taken, terms, arguments.from, taken)
    following = math.min(following, at)
    resume = resume or further
  end
  if #taken == 0 and not resume then register(arguments) end
  ring_all()
  trim_histories()
  local answers = {}
  for i, r in ipairs(taken) do answers[i] = r.id .. r.raw end
  return {now_ms, following < math.huge and following or 0, resume or 0, answers}
end
