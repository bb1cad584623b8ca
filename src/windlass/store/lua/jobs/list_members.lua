-- Return a page of a job's members (its children, and the jobs it waits for) by state, with payloads and outcomes.
-- arguments: ARGV[1] clock offset, [2] id, [3] most, [4] most jobs to read, [5] most bytes, [6] cursor score ('': from
--            the start), [7] cursor member, [8...] states wanted (none: all)
-- returns:   {cursor score, cursor member ('' at the end), {{id + record, result with its codec or nil, last
--            unsuccessful attempt or nil}, ...}} or a refusal
-- refusals:  unknown_job, already_ended
-- flags: no-writes
-- uses: keys, cursor, record, dependencies, ending
local id, most, looked_at, most_bytes = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local key = members_key(id)
local owner = load(id)
if not owner and redis.call('EXISTS', key) == 0 then return missing(id) end

local wanted, lowest = {}, math.huge
for i = 8, #ARGV do
  wanted[tonumber(ARGV[i])] = true
  lowest = math.min(lowest, tonumber(ARGV[i]))
end

local function first_rank()
  if ARGV[6] ~= '' then return rank_after(key, tonumber(ARGV[6]), ARGV[7]) end
  -- For a member that is not a child, the list shows only whether it has ended.
  if lowest < STATE.finished or lowest == math.huge then return 0 end
  return redis.call('ZCOUNT', key, '-inf', '(' .. lowest)
end

local function read_member(member_id)
  local raw = redis.call('GET', job_key(member_id))
  if not raw then return nil end
  local r = decode(member_id, raw)
  if lowest < math.huge and not wanted[r.state] then return nil end
  local result = is_ended(r) and has(r, 'has_outcome') and redis.call('GET', P .. 'o:' .. member_id)
  local attempt = is_ended(r) and r.state ~= STATE.finished and has(r, 'has_attempts')
    and redis.call('LINDEX', P .. 'a:' .. member_id, -1)
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
