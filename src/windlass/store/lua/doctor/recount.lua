-- Add up the bytes and the consequences of a queue's jobs, in steps, and compare the sums with its counters. A sum over
-- several steps is valid only if nothing changed in between. The caller passes a witness from step to step, which
-- detects changes.
-- arguments: repairs ('1': repair), queue, most (jobs), index (to continue with; '1' to start), entries (of it that
--            were counted), bytes (so far), history_bytes (so far), consequences (so far), witness ('' to start)
-- returns:   {'more', index, entries, bytes, history bytes, consequences, witness}, {'changed'}, {'unreadable'} or
--            {'done', bytes off, history bytes off, consequences off, 1 when repaired}
-- refusals:  none
-- flags: allow-oom
local expected_index = require 'doctor.expected_index'
local record = require 'jobs.record'
local keys = require 'keys'

local COUNTED = {'ready', 'laned', 'scheduled', 'waiting', 'suspended', 'running', 'history', 'failed'}
local FIELDS = {'bytes', 'history_bytes_now', 'consequences'}

local function witness_of(queue, counters)
  local parts = {redis.call('GET', keys.sequence()) or ''}
  for i = 1, #FIELDS do parts[#parts + 1] = counters[i] or '' end
  for _, index in ipairs(COUNTED) do parts[#parts + 1] = redis.call('ZCARD', keys.of_queue(index, queue)) end
  return table.concat(parts, ' ')
end

-- An overdue retake job is in two indexes. It counts as running.
local function count_entry(sum, queue, index, entry)
  local job = expected_index.safe_load(expected_index.id_of_entry(entry))
  if not job or job.queue ~= queue or not expected_index.entries_of(job)[keys.of_queue(index, queue)] then return end
  if index == 'history' then
    sum.history_bytes_now = sum.history_bytes_now + record.total_bytes(job)
  elseif index == 'failed' then
    sum.consequences = sum.consequences + (record.has(job, 'ended_by_member') and 1 or 0)
  elseif index == 'running' or index == 'suspended' or record.is_pending(job) then
    sum.bytes = sum.bytes + record.total_bytes(job)
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
  local now = witness_of(queue, counters)
  if witness ~= '' and witness ~= now then return {'changed'} end
  count_page(sum, queue, most)
  local answer = {'done'}
  if sum.index <= #COUNTED then
    answer = {'more', sum.index, sum.entries}
    for _, field in ipairs(FIELDS) do answer[#answer + 1] = string.format('%.0f', sum[field]) end
    answer[#answer + 1] = now
    return answer
  end
  local is_repaired = 0
  for i, field in ipairs(FIELDS) do
    local off = tonumber(counters[i] or 0) - sum[field]
    answer[#answer + 1] = off
    if repairs and off ~= 0 then
      correct(queue, field, off)
      is_repaired = 1
    end
  end
  answer[#answer + 1] = is_repaired
  return answer
end

return function(_, repairs, queue, most, index, entries, bytes, history_bytes, consequences, witness)
  local sum = {
    index = tonumber(index), entries = tonumber(entries), bytes = tonumber(bytes),
    history_bytes_now = tonumber(history_bytes), consequences = tonumber(consequences),
  }
  local counters = redis.call('HMGET', keys.queue(queue), unpack(FIELDS))
  local is_readable, answer = pcall(recount, sum, queue, counters, tonumber(most), repairs == '1', witness)
  return is_readable and answer or {'unreadable'}
end
