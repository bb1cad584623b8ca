-- A process that was rung for a queue and has nobody for it (any more) passes the ring on.
-- arguments: ARGV[1] clock offset, [2] bell of the caller, [3] queue, [4...] filters it no longer waits with
-- returns:   1 when somebody else was rung
-- refusals:  none
-- flags: allow-oom
-- uses: keys, record, filter, wakeups, pending_callbacks, select
local OFFERED = 8 -- the ring was for one job, but others may stand before it whose rings are still on their way
local queue = ARGV[3]
local is_rung = false
for i = 4, #ARGV do redis.call('ZREM', queue_key('waiters', queue), ARGV[2] .. '\1' .. ARGV[i]) end
for i = 4, #ARGV do
  local ids, resume = pick(queue, parse_filter(ARGV[i]), OFFERED, 0)
  for _, id in ipairs(ids) do
    local r = load(id)
    is_rung = r and ring(queue, r) or is_rung
  end
  if resume and #ids == 0 then is_rung = ring(queue, nil) or is_rung end
end
if queue == OWED and is_debt_due() then is_rung = ring(queue, nil) end
return is_rung and 1 or 0
