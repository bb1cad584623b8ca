-- Return schedules whose time has come. Read-only: the caller computes their occurrences, and fire creates the jobs.
-- arguments: most
-- returns:   {now, next occurrence of any schedule (0: none), {{name, next occurrence, revision, definition}, ...}}
-- refusals:  none
-- flags: no-writes
local clock = require 'clock'
local due = require 'due'
local keys = require 'keys'

local ANSWER_BYTES_MAX = 8388608 -- definitions carry payloads

local function read_due(most)
  local found, bytes = {}, 0
  for _, name in ipairs(due.members(keys.schedules(), most)) do
    if bytes > ANSWER_BYTES_MAX then break end
    local next_at, revision, definition =
      unpack(redis.call('HMGET', keys.schedule(name), 'next_at', 'revision', 'definition'))
    found[#found + 1] = {name, tonumber(next_at), tonumber(revision), definition}
    bytes = bytes + #definition
  end
  return found
end

return function(_, most)
  local found = read_due(tonumber(most))
  return {clock.now_ms, due.answer(due.earliest(keys.schedules())), found}
end
