-- Remove a worker that leaves. The jobs that it still holds return without a spent attempt (or end, if a cancel was
-- requested), a bounded number per call.
-- arguments: ARGV[1] clock offset, [2] worker (16 bytes), [3] most jobs
-- returns:   {jobs given back, 1 when the worker is removed, 0 when it may hold more} or a refusal
-- refusals:  unknown_worker
-- flags: allow-oom
-- uses: keys, batch, record, wakeups, push_workers, ending, reports, wake_takers
local worker, most = ARGV[2], tonumber(ARGV[3])
local ids = redis.call('ZRANGE', P .. 'wj:' .. worker, 0, most - 1)
if #ids == 0 and redis.call('EXISTS', P .. 'w:' .. worker) == 0 then return 'unknown_worker' end
for _, id in ipairs(ids) do
  local r = load(id)
  if r and is_leased(r) then give_back(r) end
end
flush()
ring_all()
trim_histories()
if #ids == most then return {#ids, 0} end
redis.call('ZREM', P .. 'workers', worker)
redis.call('DEL', P .. 'w:' .. worker)
forget_push(worker)
return {#ids, 1}
