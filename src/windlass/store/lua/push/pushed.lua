-- Record the outcomes of pushes.
-- arguments: ARGV[1] clock offset; then per job: id, token, worker (16 bytes), outcome ('accepted', 'unknown': the
--            worker does not know the name, 'unreachable', 'gone'), lease_ms if accepted
-- returns:   per job 'running', 'queued', 'scheduled', 'cancelled' or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
-- uses: keys, clock, batch, record, config, wakeups, push_workers, index, ending, reports, leasing, wake_takers
-- Without name lanes, a queue cannot keep jobs of this name from the worker: the job waits instead.
local UNTOLD_APART_MS = 1000

local function give_back_unknown(r)
  if config_of(r.queue).name_lanes == 1 or has(r, 'cancel_requested') then return give_back(r) end
  r.attempt = math.max(0, r.attempt - 1)
  put_back(r, now_ms + UNTOLD_APART_MS)
  return 'scheduled'
end

local function note(worker, outcome, r)
  if outcome == 'accepted' then is_reachable_again(worker) end
  if outcome == 'unknown' and r then note_unknown_name(worker, r.name) end
  if outcome == 'unreachable' then suspend(worker) end
  if outcome == 'gone' then drop_push_worker(worker) end
end

local function pushed(id, token, worker, outcome, lease_ms)
  local r, refused = held(id, token)
  note(worker, outcome, r)
  if not r then return refused end
  -- A late answer does not change a running job.
  if outcome == 'accepted' or r.state ~= STATE.dispatched then
    accept(id, token, lease_ms)
    return 'running'
  end
  return outcome == 'unknown' and give_back_unknown(r) or give_back(r)
end

local answers = {}
for i = 2, #ARGV, 5 do
  table.insert(answers, pushed(ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2], ARGV[i + 3], tonumber(ARGV[i + 4])))
  flush()
end
ring_all()
trim_histories()
return answers
