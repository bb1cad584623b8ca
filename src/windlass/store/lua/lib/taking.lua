-- uses: keys, clock, config, filter, ring, ending, leasing
-- take over several queues: shared by take and exchange.
local function register(arguments)
  if arguments.bell == '' then return end
  for i = arguments.queues_at, #ARGV do
    wait_for_ring(ARGV[i], arguments.bell, arguments.filter, arguments.registered_ms)
  end
end

-- Can all queues be taken from with this filter? Asked before anything is changed.
local function lacks_name_lanes(arguments)
  if parse_filter(arguments.filter).kind == '' then return false end
  for i = arguments.queues_at, #ARGV do
    if config_of(ARGV[i]).name_lanes ~= 1 then return true end
  end
  return false
end

-- While a slot is moved key by key, a script on either node sees only some of the keys (stop.lua).
local function is_stopped()
  local mark = redis.call('HGET', KEYS[1], 'stopped')
  return mark and tonumber(string.match(mark, '^%d+')) > now_ms
end

local function take_all(arguments, terms)
  if is_stopped() then return 'partition_stopped' end
  if lacks_name_lanes(arguments) then return 'names_need_lanes' end
  local filter = parse_filter(arguments.filter)
  local taken, following, resume = {}, math.huge, nil
  -- Before taking, so that what this call leaves behind can be offered to them.
  if arguments.others_wait then register(arguments) end
  for i = arguments.queues_at, #ARGV do
    if #taken >= arguments.most then break end
    local at, further = take_from(ARGV[i], filter, arguments.most - #taken, terms, arguments.from, taken)
    following = math.min(following, at)
    if further and (not resume or further < resume) then resume = further end
  end
  if #taken == 0 and not resume then register(arguments) end
  ring_all()
  trim_histories()
  local answers = {}
  for i, r in ipairs(taken) do answers[i] = r.id .. r.raw end
  return {now_ms, following < math.huge and following or 0, resume or 0, answers}
end
