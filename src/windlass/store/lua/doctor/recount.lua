-- Add up the bytes of a queue's jobs, in steps, and compare the sums with the queue's counters. A sum over several
-- steps is valid only if nothing changed in between. The caller passes a witness from step to step, which detects
-- changes.
-- arguments: ARGV[1] clock offset, [2] '1' to repair, [3] queue, [4] most jobs, [5] index to continue with ('1' to
--            start), [6] entries of it that were counted, [7] bytes so far, [8] history bytes so far, [9] witness (''
--            to start)
-- returns:   {'more', index, entries, bytes, history bytes, witness}, {'changed'}, {'unreadable'} or {'done', bytes
--            off, history bytes off, 1 when repaired}
-- refusals:  none
-- flags: allow-oom
local STATE = require('constants').STATE
local expected_index = require 'doctor.expected_index'
local keys = require 'keys'

local WEIGHED = {'ready', 'laned', 'scheduled', 'waiting', 'running', 'history'}

return function(arguments)
  local queue, most = arguments[3], tonumber(arguments[4])
  local at, seen, live, kept = tonumber(arguments[5]), tonumber(arguments[6]), tonumber(arguments[7]), tonumber(arguments[8])
  local properties = keys.queue(queue)
  local counted = redis.call('HMGET', properties, 'bytes', 'history_bytes_now')

  local function witness()
    local parts = {redis.call('GET', keys.sequence()) or '', counted[1] or '', counted[2] or ''}
    for _, index in ipairs(WEIGHED) do parts[#parts + 1] = redis.call('ZCARD', keys.of_queue(index, queue)) end
    return table.concat(parts, ' ')
  end

  -- An overdue retake job is in two indexes. It counts as running.
  local function weigh_entry(index, entry)
    local job = expected_index.safe_load(expected_index.id_of_entry(entry))
    if not job or job.queue ~= queue or not expected_index.entries_of(job)[keys.of_queue(index, queue)] then return end
    if index == 'history' then
      kept = kept + job.bytes
    elseif index == 'running' or job.state <= STATE.waiting then
      live = live + job.bytes
    end
  end

  local function mend(field, off)
    if off ~= 0 then redis.call('HINCRBY', properties, field, string.format('%.0f', -off)) end
  end

  local function weigh_page()
    while at <= #WEIGHED and most > 0 do
      local entries = redis.call('ZRANGE', keys.of_queue(WEIGHED[at], queue), seen, seen + most - 1)
      for _, entry in ipairs(entries) do weigh_entry(WEIGHED[at], entry) end
      seen, most = seen + #entries, most - #entries
      if most > 0 then at, seen = at + 1, 0 end
    end
  end

  local function recount()
    local now = witness()
    if arguments[9] ~= '' and arguments[9] ~= now then return {'changed'} end
    weigh_page()
    if at <= #WEIGHED then return {'more', at, seen, string.format('%.0f', live), string.format('%.0f', kept), now} end
    local off, kept_off = tonumber(counted[1] or 0) - live, tonumber(counted[2] or 0) - kept
    local repairs_it = arguments[2] == '1' and (off ~= 0 or kept_off ~= 0)
    if repairs_it then
      mend('bytes', off)
      mend('history_bytes_now', kept_off)
    end
    return {'done', off, kept_off, repairs_it and 1 or 0}
  end

  local is_readable, answer = pcall(recount)
  return is_readable and answer or {'unreadable'}
end
