-- Return a page of a job's members (its children, and the jobs it waits for) by state, with payloads and outcomes.
-- arguments: ARGV[1] clock offset, [2] id, [3] most, [4] most jobs to read, [5] most bytes, [6] cursor score ('': from
--            the start), [7] cursor member, [8...] states wanted (none: all)
-- returns:   {cursor score, cursor member ('' at the end), {{id + record, result with its codec or nil, last
--            unsuccessful attempt or nil}, ...}} or a refusal
-- refusals:  unknown_job, already_ended
-- flags: no-writes
local STATE = require('constants').STATE
local cursor = require 'cursor'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local keys = require 'keys'

return function(arguments)
  local id, most, looked_at, most_bytes = arguments[2], tonumber(arguments[3]), tonumber(arguments[4]), tonumber(arguments[5])
  local key = keys.members(id)
  local owner = record.load(id)
  if not owner and redis.call('EXISTS', key) == 0 then return ending.missing(id) end
  local wanted, lowest = {}, math.huge
  for i = 8, #arguments do
    wanted[tonumber(arguments[i])] = true
    lowest = math.min(lowest, tonumber(arguments[i]))
  end

  local function first_rank()
    if arguments[6] ~= '' then return cursor.rank_after(key, tonumber(arguments[6]), arguments[7]) end
    -- For a member that is not a child, the list shows only whether it has ended.
    if lowest < STATE.finished or lowest == math.huge then return 0 end
    return redis.call('ZCOUNT', key, '-inf', '(' .. lowest)
  end

  local function read_member(member_id)
    local raw = redis.call('GET', keys.job(member_id))
    if not raw then return nil end
    local job = record.decode(member_id, raw)
    if lowest < math.huge and not wanted[job.state] then return nil end
    local result = record.is_ended(job) and record.has(job, 'has_outcome') and redis.call('GET', keys.result(member_id))
    local attempt = record.is_ended(job) and job.state ~= STATE.finished and record.has(job, 'has_attempts')
      and redis.call('LINDEX', keys.attempts(member_id), -1)
    return {member_id .. raw, result, attempt}, #raw + #(result or '')
  end

  local from = first_rank()
  local page = redis.call('ZRANGE', key, from, from + looked_at - 1, 'WITHSCORES')
  local found, bytes = {}, 0
  local cursor_score, cursor_member = '', ''
  for i = 1, #page, 2 do
    local state = math.floor(tonumber(page[i + 1]))
    if lowest == math.huge or wanted[state] or state < STATE.finished then
      local member, size = read_member(page[i])
      if member then
        found[#found + 1] = member
        bytes = bytes + size
      end
    end
    local is_last = i + 1 == #page
    if #found == most or bytes >= most_bytes or is_last then
      if not is_last or #page == 2 * looked_at then cursor_member, cursor_score = page[i], page[i + 1] end
      break
    end
  end
  return {cursor_score, cursor_member, found}
end
