-- Add up the bytes of a queue's jobs, in steps, and compare the sums with the queue's counters. A sum over several
-- steps is valid only if nothing changed in between. The caller passes a witness from step to step, which detects
-- changes.
-- arguments: repairs ('1': repair), queue, most (jobs), index (to continue with; '1' to start), entries (of it that
--            were counted), bytes (so far), history_bytes (so far), witness ('' to start)
-- returns:   {'more', index, entries, bytes, history bytes, witness}, {'changed'}, {'unreadable'} or {'done', bytes
--            off, history bytes off, 1 when repaired}
-- refusals:  none
-- flags: allow-oom
local STATE = require('constants').STATE
local expected_index = require 'doctor.expected_index'
local keys = require 'keys'

local COUNTED = {'ready', 'laned', 'scheduled', 'waiting', 'running', 'history'}

local function witness_of(queue, bytes, history_bytes)
  local parts = {redis.call('GET', keys.sequence()) or '', bytes or '', history_bytes or ''}
  for _, index in ipairs(COUNTED) do parts[#parts + 1] = redis.call('ZCARD', keys.of_queue(index, queue)) end
  return table.concat(parts, ' ')
end

-- An overdue retake job is in two indexes. It counts as running.
local function count_entry(sum, queue, index, entry)
  local job = expected_index.safe_load(expected_index.id_of_entry(entry))
  if not job or job.queue ~= queue or not expected_index.entries_of(job)[keys.of_queue(index, queue)] then return end
  if index == 'history' then
    sum.history_bytes = sum.history_bytes + job.bytes
  elseif index == 'running' or job.state <= STATE.waiting then
    sum.bytes = sum.bytes + job.bytes
  end
end

local function count_page(sum, queue, most)
  while sum.index <= #COUNTED and most > 0 do
    local index = COUNTED[sum.index]
    local entries = redis.call('ZRANGE', keys.of_queue(index, queue), sum.entries, sum.entries + most - 1)
    for _, entry in ipairs(entries) do count_entry(sum, queue, index, entry) end
    sum.entries, most = sum.entries + #entries, most - #entries
    if most > 0 then sum.index, sum.entries = sum.index + 1, 0 end
  end
end

local function correct(queue, field, off)
  if off ~= 0 then redis.call('HINCRBY', keys.queue(queue), field, string.format('%.0f', -off)) end
end

local function recount(sum, queue, counters, most, repairs, witness)
  local bytes, history_bytes = unpack(counters)
  local now = witness_of(queue, bytes, history_bytes)
  if witness ~= '' and witness ~= now then return {'changed'} end
  count_page(sum, queue, most)
  if sum.index <= #COUNTED then
    local bytes_text, history_text = string.format('%.0f', sum.bytes), string.format('%.0f', sum.history_bytes)
    return {'more', sum.index, sum.entries, bytes_text, history_text, now}
  end
  local off, history_off = tonumber(bytes or 0) - sum.bytes, tonumber(history_bytes or 0) - sum.history_bytes
  local is_repaired = repairs and (off ~= 0 or history_off ~= 0)
  if is_repaired then
    correct(queue, 'bytes', off)
    correct(queue, 'history_bytes_now', history_off)
  end
  return {'done', off, history_off, is_repaired and 1 or 0}
end

return function(_, repairs, queue, most, index, entries, bytes, history_bytes, witness)
  local sum = {
    index = tonumber(index), entries = tonumber(entries), bytes = tonumber(bytes),
    history_bytes = tonumber(history_bytes),
  }
  local counters = redis.call('HMGET', keys.queue(queue), 'bytes', 'history_bytes_now')
  local is_readable, answer = pcall(recount, sum, queue, counters, tonumber(most), repairs == '1', witness)
  return is_readable and answer or {'unreadable'}
end
