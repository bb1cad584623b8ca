-- Publish values of lease holders to the followers of events. Without followers nothing is stored.
-- arguments: ARGV[1] clock offset; then per value: id, token (0: the current holder's), value with its codec
-- returns:   per value 'ok' or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
-- uses: events, reports
local function emit(id, token, value)
  local r, refused = held(id, token)
  if not r then return refused end
  announce(EVENT.emitted, r, value)
  return 'ok'
end

local answers = {}
for i = 2, #ARGV, 3 do table.insert(answers, emit(ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2])) end
return answers
