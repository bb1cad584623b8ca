-- Changes jobs that wait (or, when asked, jobs in any state): name, priority, run_at, payload, repeat rule.
-- arguments: ARGV[1] clock offset, [2] version of the limits; then per job: id, revision guard (0: none), '1' when any
--            state will do, name ('': as it is), priority ('': as it is), run_at ('': as it is), '1' when a payload
--            follows, payload codec, payload, '1' when limits follow, limits joined by \2, repeat rule ('': as it is,
--            '-': none)
-- returns:   per job {revision, state} or a refusal
-- refusals:  unknown_job, already_ended, wrong_state, revision_conflict, limits_changed (match it anew)
-- flags: allow-oom
-- uses: keys, batch, record, limits, repeating, ring, place, ending, offers
-- A new time is a new plan too: a rule counts from it.
local function change_repeat(r, rule, run_at)
  local repeats = has(r, 'repeats')
  if rule == '' and not (repeats and run_at ~= '') then return end
  local planned_at, known = r.ready_at, ''
  if repeats then planned_at, known = repeat_of(r) end
  if run_at ~= '' then planned_at = r.ready_at end
  set_repeat(r, planned_at, rule == '-' and '' or rule == '' and known or rule)
end

local function edit(id, guard, any_state, name, priority, run_at, has_payload, codec, payload, has_limits, limits, rule)
  local r = load(id)
  if not r then return missing(id) end
  local is_pending = r.state <= STATE.waiting
  if not is_pending and any_state ~= '1' then return 'wrong_state' end
  if guard ~= '0' and tonumber(guard) ~= r.revision then return 'revision_conflict' end
  if has_payload ~= '1' then payload = payload_of(r) end
  local is_retakeable = has(r, 'retakeable')
  if is_pending then leave(r) elseif is_retakeable then leave_lane(r) end
  if name ~= '' then r.name = name end
  if priority ~= '' then r.priority = tonumber(priority) end
  if run_at ~= '' then r.ready_at = tonumber(run_at) end
  change_repeat(r, rule, run_at)
  if has_payload == '1' then r.flags = bit.bor(bit.band(r.flags, bit.bnot(3)), tonumber(codec)) end
  if is_pending and r.state ~= STATE.waiting then r.state = state_by_time(r) end
  if has_limits == '1' then change_limits(r, limits) end
  r.revision = r.revision + 1
  if is_pending then enter(r) elseif is_retakeable then enter_lane(r) end
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
