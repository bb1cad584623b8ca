-- Return a page of jobs from one index, in its order. Reads a bounded number of jobs, however few of them match.
-- arguments: index ('ready', 'laned', 'scheduled', 'running', … or 't' for a tag), of (queue or tag), most, most_read
--            (jobs), direction ('up' or 'down'), cursor_score ('': from the start), cursor_member, queue (to match;
--            '': any), name (to match, a GLOB; '': any), state (to match; 0: any), created_from, created_before,
--            ended_from, ended_before (0: no bound), order ('created' or 'ended' when that is the index's score;
--            '': neither), wants_attempts ('1': return last attempts); then texts that the last attempt must contain,
--            in lower case: per text \1 + its forms, separated by \1
-- returns:   {cursor score, cursor member ('' at the end), {id + record without payload beyond 1 KiB, ...}, {score,
--            member, ... of these}, number of jobs read, {last attempt ('': none), ... of these, if requested}}
-- refusals:  none
-- flags: no-writes
local cursor = require 'cursor'
local glob = require 'glob'
local record = require 'jobs.record'
local keys = require 'keys'
local lanes = require 'queues.lanes'

local TEXTS_AT = 18
local ATTEMPT_HEAD = 33 -- numbers and the worker, before reason and error

local function last_attempt(job)
  return record.has(job, 'has_attempts') and redis.call('LINDEX', keys.attempts(job.id), -1) or ''
end

-- Return the next entries of the index: {member, score, ...}.
local function read_up(key, query)
  local from = 0
  if query.position then
    from = cursor.rank_after(key, query.position.score, query.position.member)
  elseif query.bounds.from > 0 then
    from = cursor.rank_after(key, query.bounds.from, '')
  end
  return redis.call('ZRANGE', key, from, from + query.most_read - 1, 'WITHSCORES')
end

local function read_down(key, query)
  local bound = query.bounds.before > 0 and {score = query.bounds.before, member = ''} or nil
  return cursor.read_down(key, query.position or bound, query.most_read)
end

-- Return whether no further entry can match, because the index is in the order of the requested time.
local function is_beyond(score, query)
  if query.is_up then return query.bounds.before > 0 and score >= query.bounds.before end
  return query.bounds.from > 0 and score < query.bounds.from
end

local function is_within(at, bounds) return at >= bounds.from and (bounds.before == 0 or at < bounds.before) end

local function matches(job, query)
  return (query.queue == '' or job.queue == query.queue) and (query.state == 0 or job.state == query.state)
    and (query.name == '' or glob.match(query.name, job.name)) and is_within(job.created_at, query.created)
    and is_within(job.ended_at, query.ended) and (query.ended.before == 0 or job.ended_at > 0)
end

local function contains_texts(attempt, arguments)
  local content = string.lower(string.sub(attempt, ATTEMPT_HEAD + 1))
  for i = TEXTS_AT, #arguments do
    local is_there = false
    for form in string.gmatch(arguments[i], '[^\1]+') do
      is_there = is_there or string.find(content, form, 1, true) ~= nil
    end
    if not is_there then return false end
  end
  return true
end

-- Return the job of an entry if it matches, and its last attempt if that is needed.
local function find_match(member, query, arguments)
  local job = record.load(query.has_lane_members and lanes.id_in_member(member) or member)
  if not job or not matches(job, query) then return nil end
  local has_texts = #arguments >= TEXTS_AT
  local attempt = (query.wants_attempts or has_texts) and last_attempt(job)
  if has_texts and not contains_texts(attempt, arguments) then return nil end
  return job, attempt
end

local function select_jobs(page, query, arguments)
  local found, positions, attempts, next_score, next_member, jobs_read = {}, {}, {}, '', '', 0
  for i = 1, #page, 2 do
    local member, score, is_last = page[i], page[i + 1], i + 1 == #page
    if is_beyond(tonumber(score), query) then break end
    jobs_read = jobs_read + 1
    local job, attempt = find_match(member, query, arguments)
    if job then
      found[#found + 1] = job.id .. job.raw
      positions[#positions + 1] = score
      positions[#positions + 1] = member
      if query.wants_attempts then attempts[#attempts + 1] = attempt end
    end
    if #found == query.most or is_last then
      if not is_last or #page == 2 * query.most_read then next_score, next_member = score, member end
      break
    end
  end
  return {next_score, next_member, found, positions, jobs_read, attempts}
end

return function(arguments, index, of, most, most_read, direction, cursor_score, cursor_member, queue, name, state,
    created_from, created_before, ended_from, ended_before, order, wants_attempts)
  local created = {from = tonumber(created_from), before = tonumber(created_before)}
  local ended = {from = tonumber(ended_from), before = tonumber(ended_before)}
  local query = {
    most = tonumber(most), most_read = tonumber(most_read), is_up = direction == 'up', queue = queue, name = name,
    state = tonumber(state), created = created, ended = ended, wants_attempts = wants_attempts == '1',
    bounds = order == 'created' and created or order == 'ended' and ended or {from = 0, before = 0},
    position = cursor_score ~= '' and {score = tonumber(cursor_score), member = cursor_member} or nil,
    has_lane_members = index == 'ready' or index == 'laned',
  }
  local read = query.is_up and read_up or read_down
  return select_jobs(read(keys.of_queue(index, of), query), query, arguments)
end
