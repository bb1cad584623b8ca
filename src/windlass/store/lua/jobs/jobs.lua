-- Return a page of jobs from one index, in its order. Reads a bounded number of jobs, however few of them match.
-- arguments: ARGV[1] clock offset, [2] index: 'ready', 'laned', 'scheduled', 'running', … or 't' for a tag, [3] queue
--            or tag, [4] most, [5] most jobs to read, [6] 'up' or 'down', [7] cursor score ('': from the start),
--            [8] cursor member, [9] queue to match ('': any), [10] name to match, a GLOB ('': any), [11] state to match
--            (0: any), [12] created from, [13] created before, [14] ended from, [15] ended before (0: no bound),
--            [16] 'created' or 'ended' when that is the index's score ('': neither), [17] '1' to return last attempts,
--            [18...] texts that the last attempt must contain, in lower case: per text \1 + its forms, separated by \1
-- returns:   {cursor score, cursor member ('' at the end), {id + record without payload beyond 1 KiB, ...}, {score,
--            member, ... of these}, number of jobs read, {last attempt ('': none), ... of these, if requested}}
-- refusals:  none
-- flags: no-writes
local cursor = require 'cursor'
local glob = require 'glob'
local record = require 'jobs.record'
local keys = require 'keys'
local lanes = require 'queues.lanes'

local function last_attempt(job)
  return record.has(job, 'has_attempts') and redis.call('LINDEX', keys.attempts(job.id), -1) or ''
end

local ATTEMPT_HEAD = 33 -- numbers and the worker, before reason and error

return function(arguments)
  local key = keys.of_queue(arguments[2], arguments[3])
  local most, looked_at, is_up = tonumber(arguments[4]), tonumber(arguments[5]), arguments[6] == 'up'
  local queue, name, state = arguments[9], arguments[10], tonumber(arguments[11])
  local created_from, created_before = tonumber(arguments[12]), tonumber(arguments[13])
  local ended_from, ended_before = tonumber(arguments[14]), tonumber(arguments[15])
  local holds_places = arguments[2] == 'ready' or arguments[2] == 'laned'
  local score_from = arguments[16] == 'created' and created_from or arguments[16] == 'ended' and ended_from or 0
  local score_before = arguments[16] == 'created' and created_before or arguments[16] == 'ended' and ended_before or 0
  local wants_attempts = arguments[17] == '1'

  local function read_page()
    if is_up then
      local from = arguments[7] ~= '' and cursor.rank_after(key, tonumber(arguments[7]), arguments[8])
        or score_from > 0 and cursor.rank_after(key, score_from, '') or 0
      return redis.call('ZRANGE', key, from, from + looked_at - 1, 'WITHSCORES')
    end
    local size = redis.call('ZCARD', key)
    local before = size
    if arguments[7] ~= '' then
      local score = tonumber(arguments[7])
      before = cursor.rank_after(key, score, arguments[8])
      -- The entry at the cursor was on the last page, unless it has been removed or moved since.
      if tonumber(redis.call('ZSCORE', key, arguments[8]) or nil) == score then before = before - 1 end
    elseif score_before > 0 then
      before = cursor.rank_after(key, score_before, '')
    end
    if before <= 0 then return {} end
    return redis.call('ZREVRANGE', key, size - before, size - before + looked_at - 1, 'WITHSCORES')
  end

  -- Return whether no further entry can match, because the index is in the order of the requested time.
  local function is_beyond(score)
    if is_up then return score_before > 0 and score >= score_before end
    return score_from > 0 and score < score_from
  end

  local function matches(job)
    return (queue == '' or job.queue == queue) and (state == 0 or job.state == state)
      and (name == '' or glob.match(name, job.name))
      and job.created_at >= created_from and (created_before == 0 or job.created_at < created_before)
      and job.ended_at >= ended_from and (ended_before == 0 or (job.ended_at > 0 and job.ended_at < ended_before))
  end

  local function holds_texts(attempt)
    local said = string.lower(string.sub(attempt, ATTEMPT_HEAD + 1))
    for i = 18, #arguments do
      local is_there = false
      for form in string.gmatch(arguments[i], '[^\1]+') do
        is_there = is_there or string.find(said, form, 1, true) ~= nil
      end
      if not is_there then return false end
    end
    return true
  end

  local page = read_page()
  local found, positions, attempts, cursor_score, cursor_member, looked = {}, {}, {}, '', '', 0
  for i = 1, #page, 2 do
    if is_beyond(tonumber(page[i + 1])) then break end
    looked = looked + 1
    local id = holds_places and lanes.id_in_member(page[i]) or page[i]
    local job = record.load(id)
    if job and matches(job) then
      local attempt = (wants_attempts or #arguments > 17) and last_attempt(job)
      if #arguments == 17 or holds_texts(attempt) then
        table.insert(found, job.id .. job.raw)
        table.insert(positions, page[i + 1])
        table.insert(positions, page[i])
        if wants_attempts then table.insert(attempts, attempt) end
      end
    end
    local is_last = i + 1 == #page
    if #found == most or is_last then
      if not is_last or #page == 2 * looked_at then cursor_member, cursor_score = page[i], page[i + 1] end
      break
    end
  end
  return {cursor_score, cursor_member, found, positions, looked, attempts}
end
