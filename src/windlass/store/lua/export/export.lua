-- Read entries of one kind as they are stored, until the answer is large enough. Read-only.
-- arguments: kind ('j' jobs, 'b' callbacks, 's' schedules, 'q' queues, 't' tombstones, 'f' flows); then names
-- returns:   per name, as far as the answer reaches: false (it is gone), or of a job {record, {attempt, ...}, {log
--            entry, ...}, result ('': none), instant of its removal ('': none), 1 when other jobs hold its unique key
--            too, queue of its parent ('': none), cursor of more members ('': none), {id + queue of a job it waits for,
--            ...}}; of a callback {'owed' or 'given_up', its score, {field, value, ...}}; of a schedule {{field, value,
--            ...}, {job, ...}}; of a queue {{field, value, ...}, {what is paused, since + reason, ...}, {lane, weight,
--            ...}}; of a tombstone {queue, instant at which it is forgotten}; of a flow {field, value, ...}
-- refusals:  none
-- flags: no-writes
local export_entries = require 'export.export_entries'

local NAMES_AT = 3

return function(arguments, kind)
  local read, answers, weight = export_entries.EXPORT[kind], {}, 0
  for i = NAMES_AT, #arguments do
    if weight >= export_entries.WEIGHT_MAX then break end
    local parts, added = read(arguments[i])
    answers[#answers + 1] = parts or false
    weight = weight + added
  end
  return answers
end
