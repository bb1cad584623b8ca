-- Puts entries of an export into their places. Repeating one is harmless.
-- arguments: ARGV[1] clock offset, [2] version of the limits the jobs were matched against; then per entry: kind ('j' a
--            job, 'b' a callback, 's' a schedule, 'q' a queue), name, body (packed, see restoring.lua)
-- returns:   per entry 'added', 'existing' or a refusal
-- refusals:  id_conflict, already_ended, unique_conflict; limits_changed for all of them: match them anew
-- uses: keys, batch, ring, ending, family, offers, restoring
local version, answers = redis.call('GET', P .. 'limits_version') or '0', {}
for i = 3, #ARGV, 3 do
  if version == ARGV[2] then
    answers[#answers + 1] = RESTORE[ARGV[i]](ARGV[i + 1], cmsgpack.unpack(ARGV[i + 2]))
  else
    answers[#answers + 1] = 'limits_changed'
  end
end
flush()
raise_sequence()
ring_all()
trim_histories()
return answers
