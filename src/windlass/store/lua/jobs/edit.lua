-- Change jobs that have not started (on request, jobs in any state): name, priority, run_at, payload, limits, repeat
-- rule, attempts.
-- arguments: ARGV[1] clock offset, [2] version of the limits; then per job: id, revision guard (0: none), '1' to accept
--            any state, name ('': unchanged), priority ('': unchanged), run_at ('': unchanged), payload codec
--            ('': payload unchanged), payload, '1' when limits follow, limits joined by \2, repeat rule ('': unchanged,
--            '-': none), attempts that count as made ('': unchanged)
-- returns:   per job {revision, state} or a refusal
-- refusals:  unknown_job, already_ended, wrong_state, revision_conflict, limits_changed (match again)
-- flags: allow-oom
-- uses: keys, clock, batch, record, limits, wakeups, index, ending, amend, wake_takers

-- A new run_at of a running retake job moves the deadline of its lease.
local function move_deadline(r)
  if r.ready_at > now_ms then unmark(r, 'retakeable') end
  r.deadline = r.ready_at
  enter_running(r)
end

local function edit(id, guard, any_state, name, priority, run_at, codec, payload, has_limits, limits, rule, attempt)
  local r = load(id)
  if not r then return missing(id) end
  local is_pending = r.state <= STATE.waiting
  if not is_pending and any_state ~= '1' then return 'wrong_state' end
  if guard ~= '0' and tonumber(guard) ~= r.revision then return 'revision_conflict' end
  if codec == '' then payload = payload_of(r) end
  if is_pending then leave(r) elseif has(r, 'retakeable') then leave_lane(r) end
  amend(r, {name = name, priority = priority, run_at = run_at, attempt = attempt, rule = rule, codec = codec,
    limits = has_limits == '1' and limits})
  if r.state == STATE.running and has(r, 'retake') and run_at ~= '' and r.deadline > 0 then move_deadline(r) end
  if is_pending and r.state ~= STATE.waiting then r.state = state_by_time(r) end
  if is_pending then enter(r) elseif has(r, 'retakeable') then enter_lane(r) end
  rewrite(r, payload)
  return {r.revision, r.state}
end

local answers = {}
local is_stale = have_limits_changed(ARGV[2])
for i = 3, #ARGV, 12 do
  table.insert(answers, is_stale and 'limits_changed' or edit(unpack(ARGV, i, i + 11)))
end
flush()
ring_all()
return answers
