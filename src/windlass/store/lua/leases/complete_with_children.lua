-- End runs with content from the caller, in one step: finish, fail, or run again at another time.
-- arguments: ARGV[1] clock offset, [2] version of the limits; then per job: id, token (0: the current holder's),
--            revision guard (0: none), conditions (letters: a accept any state, p only while its parent waits, k keep
--            members that have ended), 'finish' | 'again' | 'fail', run_at ('': none), delay in ms ('': none), name
--            ('': unchanged), unique key ('': unchanged), priority ('': unchanged), payload codec ('': payload
--            unchanged), payload, '1' when limits follow, limits joined by \2, repeat rule ('': unchanged, '-': none),
--            attempts that count as made, reason
-- returns:   per job 'finished', 'waiting' (it yields to its children), 'again', 'failed', 'cancelled' or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state, revision_conflict, parent_state, unsettled,
--            unique_conflict, limits_changed (match again)
-- flags: allow-oom
-- uses: clock, batch, record, limits, wakeups, ending, reports, complete, propagation, wake_takers
local function find_job(id, token, in_any_state)
  local r, refused = held(id, token)
  if r or not in_any_state or token > 0 then return r, refused end
  r = load(id)
  if r and has(r, 'in_history') then return nil, 'already_ended' end
  return r, not r and missing(id) or nil
end

local function time_of(run_at, delay)
  if delay == '' then return run_at end
  local at = now_ms + tonumber(delay)
  return at - at % 1000
end

local function conclude(id, token, guard, conditions, then_what, run_at, delay, name, unique, priority, codec, payload,
    has_limits, limits, rule, attempt, reason)
  local r, refused = find_job(id, tonumber(token), string.find(conditions, 'a', 1, true))
  if not r then return refused end
  refused = refused_conclusion(r, {guard = tonumber(guard), if_parent_waits = string.find(conditions, 'p', 1, true)})
  if refused then return refused end
  local content = {name = name, unique = unique, priority = priority, run_at = time_of(run_at, delay), codec = codec,
    payload = payload, limits = has_limits == '1' and limits, rule = rule, attempt = attempt}
  if then_what == 'finish' then return finish_with(r, content) end
  if then_what == 'fail' then
    if is_ended(r) then return 'already_ended' end
    write_content(r, content)
    return end_badly(r, reason)
  end
  if has(r, 'cancel_requested') and not string.find(conditions, 'a', 1, true) then return call_off_instead(r) end
  return go_again(r, content, string.find(conditions, 'k', 1, true))
end

local answers = {}
local is_stale = have_limits_changed(ARGV[2])
for i = 3, #ARGV, 17 do
  table.insert(answers, is_stale and 'limits_changed' or conclude(unpack(ARGV, i, i + 16)))
end
flush()
ring_all()
trim_histories()
return answers
