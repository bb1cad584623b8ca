-- Return a page of a job's members (its children, and the jobs it waits for) by state, with payloads and outcomes.
-- arguments: id, most, most_read (jobs), most_bytes, cursor_score ('': from the start), cursor_member; then states
--            wanted (none: all)
-- returns:   {cursor score, cursor member ('' at the end), {{id + record, result with its codec or nil, last
--            unsuccessful attempt or nil}, ...}} or a refusal
-- refusals:  unknown_job, already_ended
-- flags: no-writes
local STATE = require('constants').STATE
local cursor = require 'cursor'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local keys = require 'keys'

local STATES_AT = 8

-- Return the wanted states as a set, and the lowest of them; all states: nil and nil.
local function read_states(arguments)
  local wanted, lowest = nil, nil
  for i = STATES_AT, #arguments do
    local state = tonumber(arguments[i])
    wanted, lowest = wanted or {}, math.min(lowest or state, state)
    wanted[state] = true
  end
  return wanted, lowest
end

local function first_rank(key, lowest, cursor_score, cursor_member)
  if cursor_score ~= '' then return cursor.rank_after(key, tonumber(cursor_score), cursor_member) end
  -- For a member that is not a child, the list shows only whether it has ended.
  if not lowest or lowest < STATE.finished then return 0 end
  return redis.call('ZCOUNT', key, '-inf', '(' .. lowest)
end

local function read_member(id, wanted)
  local raw = redis.call('GET', keys.job(id))
  if not raw then return nil end
  local job = record.decode(id, raw)
  if wanted and not wanted[job.state] then return nil end
  local is_ended = record.is_ended(job)
  local result = is_ended and record.has(job, 'has_outcome') and redis.call('GET', keys.result(id))
  local attempt = is_ended and job.state ~= STATE.finished and record.has(job, 'has_attempts')
    and redis.call('LINDEX', keys.attempts(id), -1)
  return {id .. raw, result, attempt}, #raw + #(result or '')
end

local function may_match(score, wanted)
  local state = math.floor(score)
  return not wanted or wanted[state] or state < STATE.finished
end

local function select_members(page, wanted, most, most_read, most_bytes)
  local found, bytes, next_score, next_member = {}, 0, '', ''
  for i = 1, #page, 2 do
    local id, score, is_last = page[i], page[i + 1], i + 1 == #page
    local member, size
    if may_match(tonumber(score), wanted) then member, size = read_member(id, wanted) end
    if member then
      found[#found + 1] = member
      bytes = bytes + size
    end
    if #found == most or bytes >= most_bytes or is_last then
      if not is_last or #page == 2 * most_read then next_score, next_member = score, id end
      break
    end
  end
  return {next_score, next_member, found}
end

return function(arguments, id, most, most_read, most_bytes, cursor_score, cursor_member)
  most_read = tonumber(most_read)
  local key = keys.members(id)
  if not record.load(id) and redis.call('EXISTS', key) == 0 then return ending.missing(id) end
  local wanted, lowest = read_states(arguments)
  local from = first_rank(key, lowest, cursor_score, cursor_member)
  local page = redis.call('ZRANGE', key, from, from + most_read - 1, 'WITHSCORES')
  return select_members(page, wanted, tonumber(most), most_read, tonumber(most_bytes))
end
