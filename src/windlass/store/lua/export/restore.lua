-- Restore entries of an export. Restoring an entry again changes nothing.
-- arguments: ARGV[1] clock offset, [2] version of the limits that the jobs were matched against; then per entry: kind
--            ('j' job, 'b' callback, 's' schedule, 'q' queue), name, body (packed, see restore_entries.lua)
-- returns:   per entry 'added', 'existing' or a refusal
-- refusals:  id_conflict, already_ended, unique_conflict; limits_changed for all of them: match again
local batch = require 'batch'
local restore_entries = require 'export.restore_entries'
local ending = require 'jobs.ending'
local limits = require 'limits.limits'
local wake_takers = require 'workers.wake_takers'

return function(arguments)
  local is_stale, answers = limits.have_changed(arguments[2]), {}
  for i = 3, #arguments, 3 do
    answers[#answers + 1] = is_stale and 'limits_changed' or restore_entries.RESTORE[arguments[i]](arguments[i + 1], cmsgpack.unpack(arguments[i + 2]))
  end
  batch.flush()
  restore_entries.raise_sequence()
  wake_takers.wake_all()
  ending.trim_histories()
  return answers
end
