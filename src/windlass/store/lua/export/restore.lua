-- Restore entries of an export. Restoring an entry again changes nothing.
-- arguments: ARGV[1] clock offset, [2] version of the limits that the jobs were matched against; then per entry: kind
--            ('j' job, 'b' callback, 's' schedule, 'q' queue), name, body (packed, see restore_entries.lua)
-- returns:   per entry 'added', 'existing' or a refusal
-- refusals:  id_conflict, already_ended, unique_conflict; limits_changed for all of them: match again
-- uses: keys, batch, limits, wakeups, ending, propagation, wake_takers, restore_entries
local is_stale, answers = have_limits_changed(ARGV[2]), {}
for i = 3, #ARGV, 3 do
  answers[#answers + 1] = is_stale and 'limits_changed' or RESTORE[ARGV[i]](ARGV[i + 1], cmsgpack.unpack(ARGV[i + 2]))
end
flush()
raise_sequence()
ring_all()
trim_histories()
return answers
