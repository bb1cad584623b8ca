-- Return a page of flows, newest first. Reads their counts, not their steps.
-- arguments: most, cursor_score ('': from the start), cursor_member
-- returns:   {score, member ('' at the end) to continue with, {id, score, {value of each field, as in FIELDS}, ... per
--            flow}}
-- refusals:  none
-- flags: no-writes
local cursor = require 'cursor'
local keys = require 'keys'

local FIELDS = {
  'name', 'created_at', 'queues', 'ended_at', 'total', 'finished', 'failed', 'cancelled', 'consequences', 'deleted',
}

return function(_, most, cursor_score, cursor_member)
  most = tonumber(most)
  local position = cursor_score ~= '' and {score = tonumber(cursor_score), member = cursor_member} or nil
  local page = cursor.read_down(keys.flows(), position, most)
  local rows = {}
  for i = 1, #page, 2 do
    rows[#rows + 1] = page[i]
    rows[#rows + 1] = page[i + 1]
    rows[#rows + 1] = redis.call('HMGET', keys.flow(page[i]), unpack(FIELDS))
  end
  if #page < 2 * most then return {'', '', rows} end
  return {page[#page], page[#page - 1], rows}
end
