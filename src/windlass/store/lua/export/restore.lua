-- Restore entries of an export. Restoring an entry again changes nothing.
-- arguments: version (of the limits that the jobs were matched against); then per entry: kind ('j' job, 'b' callback,
--            's' schedule, 'q' queue, 't' tombstone, 'f' flow), name, body (packed, see restore_entries.lua)
-- returns:   per entry 'added', 'existing' or a refusal
-- refusals:  id_conflict, already_ended, unique_conflict; limits_changed for all of them: match again
local batch = require 'batch'
local restore_entries = require 'export.restore_entries'
local ending = require 'jobs.ending'
local limits = require 'limits.limits'
local script = require 'script'
local wake_takers = require 'workers.wake_takers'

return function(arguments, version)
  local is_stale = limits.have_changed(version)
  local answers = script.map(arguments, 3, 3, function(kind, name, body)
    return is_stale and 'limits_changed' or restore_entries.RESTORE[kind](name, cmsgpack.unpack(body))
  end)
  batch.flush()
  restore_entries.raise_sequence()
  wake_takers.wake_all()
  ending.trim_histories()
  return answers
end
