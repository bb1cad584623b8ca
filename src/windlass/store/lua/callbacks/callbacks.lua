-- Return a page of pending or given-up callbacks for display. Payloads are truncated, and long results are left out.
-- arguments: ARGV[1] clock offset, [2] list: 'owed' (pending) | 'given_up', [3] from, [4] most
-- returns:   {{instant at which it is due or removed, {id, field, ...}}, ...}; fields as in pending_callbacks.lua
-- refusals:  none
-- flags: no-writes
local keys = require 'keys'
local pending_callbacks = require 'pending_callbacks'

local SHOWN_BYTES = 1024

return function(arguments)
  local from, answers = tonumber(arguments[3]), {}
  local page = redis.call('ZRANGE', keys.named(arguments[2]), from, from + tonumber(arguments[4]) - 1, 'WITHSCORES')
  for i = 1, #page, 2 do table.insert(answers, {tonumber(page[i + 1]), (pending_callbacks.read(page[i], SHOWN_BYTES))}) end
  return answers
end
