-- Pass on a wakeup, for a process that was woken for a queue and has no taker for it.
-- arguments: ARGV[1] clock offset, [2] wakeup list of the caller, [3] queue, [4...] filters it no longer waits with
-- returns:   1 when another waiter was woken
-- refusals:  none
-- flags: allow-oom
-- uses: keys, record, filter, wakeups, pending_callbacks, select
local OFFERED = 8 -- the wakeup was for one job, but jobs ahead of it may have wakeups that are in transit
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
