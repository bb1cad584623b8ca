-- Set deadlines of jobs that were taken for clients that know jobs by number, and return what these clients see beside
-- each job: its number, its parent, and its children that finished or were cancelled. Parents and children in other
-- queues are left out. The answer is bounded: it may lack the last jobs, and children that the next call returns.
-- arguments: ARGV[1] clock offset, [2] most children to look at, [3] most bytes, about, [4] queue; then per job: id,
--            token, lease_ms (0: the deadline stays), parent ('': none), cursor score ('0': the first page of children,
--            '': no children), cursor member
-- returns:   {per job {number ('': the id contains it), id of its parent ('': none is shown), cursor score, cursor
--            member ('' at the end), {child, ...}} or a refusal, {parent, ...}}; a child or parent is {number, id +
--            record}
-- refusals:  unknown_job, already_ended (only of a job that changes: it gets a deadline or a number)
-- flags: allow-oom
-- uses: keys, batch, cursor, record, dependencies, ending, numbers, reports, leasing, numbered_jobs
local children_left, bytes_left, queue = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local is_changed = false

local function number_to_show(r)
  if number_in(r.id) then return '' end
  is_changed = true
  return number_of(r)
end

local function show(r)
  payload_of(r) -- reads a payload that is not loaded yet
  local number = number_to_show(r)
  bytes_left = bytes_left - #r.raw
  return {number, r.id .. r.raw}
end

local parents, shown_parents = {}, {}
local function show_parent(id)
  local parent = id ~= '' and load(id)
  if not parent or parent.queue ~= queue then return '' end
  if not shown_parents[id] then
    shown_parents[id] = true
    parents[#parents + 1] = show(parent)
  end
  return id
end

local function is_shown_child(r, owner)
  return (r.state == STATE.finished or r.state == STATE.cancelled) and is_child_of(r, owner) and r.queue == queue
end

-- Return where the next page starts ('', '': at the end), and the children.
local function ended_children(owner, score, member)
  local key, found = members_key(owner), {}
  local from = score == '0' and redis.call('ZCOUNT', key, '-inf', '(' .. STATE.finished)
    or rank_after(key, tonumber(score), member)
  local most = math.max(children_left, 1)
  local page = redis.call('ZRANGE', key, from, from + most - 1, 'WITHSCORES')
  for i = 1, #page, 2 do
    children_left = children_left - 1
    local is_failed = math.floor(tonumber(page[i + 1])) == STATE.failed
    local child = not is_failed and load(page[i])
    if child and is_shown_child(child, owner) then found[#found + 1] = show(child) end
    local is_last = i + 1 == #page
    if is_last and #page < 2 * most then break end
    if is_last or bytes_left <= 0 then return page[i + 1], page[i], found end
  end
  return '', '', found
end

local function details(id, token, lease_ms, parent, score, member)
  local number = ''
  if lease_ms > 0 or not number_in(id) then
    local r = load(id)
    if not r then return missing(id) end
    if lease_ms > 0 and held(id, token) then renew(r, lease_ms) end
    number, is_changed = number_to_show(r), true
  end
  local shown_parent = show_parent(parent)
  if score == '' then return {number, shown_parent, '', '', {}} end
  return {number, shown_parent, ended_children(id, score, member)}
end

local answers = {}
for i = 5, #ARGV, 6 do
  if i > 5 and (children_left <= 0 or bytes_left <= 0) then break end
  answers[#answers + 1] =
    details(ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), ARGV[i + 3], ARGV[i + 4], ARGV[i + 5])
end
if is_changed then flush() end
return {answers, parents}
