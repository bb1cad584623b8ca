-- Set deadlines of jobs that were taken for clients that know jobs by number, and return what these clients see beside
-- each job: its number, its parent, and its children that finished or were cancelled. Jobs of other queues are not
-- shown. The answer is bounded: it may leave out the last jobs, and children that the next call returns.
-- arguments: ARGV[1] clock offset, [2] most children to look at, [3] most bytes, about; then per job: id, token,
--            lease_ms (0: the deadline stays), cursor score ('': the first page of children), cursor member
-- returns:   {per job {number ('': the id contains it), id of its parent ('': none is shown), cursor score, cursor
--            member ('' at the end), {child, ...}} or a refusal, {parent, ...}}; a child or parent is {number, id +
--            record}. With a cursor only the children are returned.
-- refusals:  unknown_job, already_ended
-- flags: allow-oom
-- uses: keys, batch, cursor, record, dependencies, ending, reports, leasing, numbered_jobs
local children_left, bytes_left = tonumber(ARGV[2]), tonumber(ARGV[3])

local function show_in_answer(r)
  local shown = show(r)
  bytes_left = bytes_left - #shown[2]
  return shown
end

local parents, shown_parents = {}, {}
local function show_parent(r)
  local id = links_of(r).parent
  local parent = id ~= NOBODY and load(id)
  if not parent or parent.queue ~= r.queue then return '' end
  if not shown_parents[id] then
    shown_parents[id] = true
    parents[#parents + 1] = show_in_answer(parent)
  end
  return id
end

local function is_shown_child(r, owner)
  return (r.state == STATE.finished or r.state == STATE.cancelled) and is_child_of(r, owner.id)
    and r.queue == owner.queue
end

-- Return where the next page starts ('', '': at the end), and the children.
local function ended_children(owner, score, member)
  local key, found = members_key(owner.id), {}
  local from = score == '' and redis.call('ZCOUNT', key, '-inf', '(' .. STATE.finished)
    or rank_after(key, tonumber(score), member)
  local most = math.max(children_left, 1)
  local page = redis.call('ZRANGE', key, from, from + most - 1, 'WITHSCORES')
  for i = 1, #page, 2 do
    children_left = children_left - 1
    local is_failed = math.floor(tonumber(page[i + 1])) == STATE.failed
    local child = not is_failed and load(page[i])
    if child and is_shown_child(child, owner) then found[#found + 1] = show_in_answer(child) end
    local is_last = i + 1 == #page
    if is_last and #page < 2 * most then break end
    if is_last or bytes_left <= 0 then return page[i + 1], page[i], found end
  end
  return '', '', found
end

local function details(id, token, lease_ms, score, member)
  local r = load(id)
  if not r then return missing(id) end
  if lease_ms > 0 and held(id, token) then renew(r, lease_ms) end
  local number, parent = '', ''
  if score == '' then
    number, parent = number_in(id) and '' or number_of(r), show_parent(r)
  end
  if not has(r, 'has_members') then return {number, parent, '', '', {}} end
  return {number, parent, ended_children(r, score, member)}
end

local answers = {}
for i = 4, #ARGV, 5 do
  if i > 4 and (children_left <= 0 or bytes_left <= 0) then break end
  answers[#answers + 1] = details(ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), ARGV[i + 3], ARGV[i + 4])
end
flush()
return {answers, parents}
