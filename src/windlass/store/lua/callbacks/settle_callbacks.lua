-- Remove callbacks that were delivered.
-- arguments: ARGV[1] clock offset; then per callback: id, token
-- returns:   per callback 'ok' or a refusal
-- refusals:  unknown_callback (settled already, or never pending), stale_lease
-- flags: allow-oom
-- uses: pending_callbacks
local answers = {}
for i = 2, #ARGV, 2 do
  local refused = refused_debt(ARGV[i], ARGV[i + 1])
  if not refused then
    unlist_owed(ARGV[i], to_of(ARGV[i]))
    redis.call('DEL', debt_key(ARGV[i]))
  end
  table.insert(answers, refused or 'ok')
end
return answers
