-- Return the oldest holder of a unique key. Read-only.
-- arguments: ARGV[1] clock offset; then per key: queue, key
-- returns:   per key the holder's id, or a refusal
-- refusals:  unknown_job (the key has no holder)
-- flags: no-writes
-- uses: keys, unique
local answers = {}
for i = 2, #ARGV, 2 do
  local r = oldest_holder({queue = ARGV[i], unique = ARGV[i + 1]})
  answers[i / 2] = r and r.id or 'unknown_job'
end
return answers
